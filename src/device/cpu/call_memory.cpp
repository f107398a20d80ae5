#include "device/cpu/call_memory.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace baton {
namespace {

constexpr size_t kLine = 64;

void* allocate_lines(size_t bytes) {
  void* data = std::aligned_alloc(kLine, bytes);
  BATON_CHECK(data != nullptr, "cpu: cannot allocate", bytes, "bytes of kernel scratch");
  return data;
}

}  // namespace

CallMemory::~CallMemory() {
  for (void* piece : borrowed_) std::free(piece);
  std::free(block_);
}

void* CallMemory::take(size_t bytes) {
  BATON_CHECK(depth_ > 0, "kernel scratch taken outside a frame");
  const size_t rounded = std::max(kLine, (bytes + kLine - 1) / kLine * kLine);
  const size_t at = used_;
  used_ += rounded;
  most_used_ = std::max(most_used_, used_);
  if (used_ <= size_) return block_ + at;
  borrowed_.push_back(allocate_lines(rounded));
  return borrowed_.back();
}

void* CallMemory::do_allocate(size_t bytes, size_t alignment) {
  BATON_CHECK(alignment <= kLine, alignment);
  return take(bytes);
}

void CallMemory::give_back(size_t used) {
  used_ = used;
  if (--depth_ > 0 || borrowed_.empty()) return;
  for (void* piece : borrowed_) std::free(piece);
  borrowed_.clear();
  std::free(block_);
  size_ = most_used_;
  block_ = static_cast<std::byte*>(allocate_lines(size_));
}

}  // namespace baton
