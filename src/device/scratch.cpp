#include "device/scratch.h"

#include <algorithm>
#include <limits>

namespace baton {
namespace {

constexpr size_t kAlignment = 256;

// Not null (null means "no tensor"), and far from anything mapped.
std::byte* planning_base() {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never dereferenced
  return reinterpret_cast<std::byte*>(kAlignment);
}

}  // namespace

Scratch::Scratch()
    : base_(planning_base()), capacity_(std::numeric_limits<size_t>::max()), planning_(true) {}

Scratch::Scratch(void* base, size_t bytes)
    : base_(static_cast<std::byte*>(base)), capacity_(bytes), planning_(false) {}

Tensor Scratch::take(DType dtype, std::initializer_list<int64_t> dims) {
  Tensor tensor = make_tensor(base_ + used_, dtype, dims);
  const size_t bytes = static_cast<size_t>(tensor.bytes());
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  BATON_CHECK(used_ <= capacity_, "scratch plan exceeded:", used_, "of", capacity_);
  peak_ = std::max(peak_, used_);
  return tensor;
}

}  // namespace baton
