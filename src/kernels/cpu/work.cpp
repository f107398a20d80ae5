#include <algorithm>

#include "kernels/cpu/ops.h"

namespace baton::cpu {

int64_t grain_for(int64_t count, double cost) {
  constexpr double kWorthSharing = 10'000.0;  // twice what waking a worker costs
  return static_cast<double>(count) * cost < kWorthSharing ? std::max<int64_t>(count, 1) : 1;
}

int64_t group_end(const BatchLayout& batch, int64_t first, int64_t end, int64_t most) {
  const auto* sequences = batch.sequence_of.as<int32_t>();
  int64_t last = first + 1;
  while (last < end && last - first < most && sequences[last] == sequences[first]) ++last;
  return last;
}

}  // namespace baton::cpu
