#include <cmath>

#include "kernels/reference/ops.h"

namespace baton::reference {
namespace {

int32_t largest(const float* values, int64_t count) {
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(values[i])) return -1;
    if (values[i] > values[at]) at = i;
  }
  return std::isinf(values[at]) ? -1 : static_cast<int32_t>(at);
}

}  // namespace

void argmax(Queue&, const ArgmaxArgs& args) {
  for (int64_t r = 0; r < args.logits.dim(0); ++r) {
    args.out.as<int32_t>()[r] =
        largest(args.logits.as<float>() + r * args.logits.stride(0), args.logits.dim(1));
  }
}

}  // namespace baton::reference
