#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/reference/ops.h"
#include "kernels/score_order.h"

namespace baton::reference {

void select_top_k(Queue&, const SelectTopKArgs& args) {
  const int64_t top_k = args.selection.dim(1);
  std::vector<int32_t> order;
  for (int64_t r = 0; r < args.selection.dim(0); ++r) {
    const float* scores = args.scores.as<float>() + r * args.scores.stride(0);
    const int64_t visible = args.batch.positions.as<int32_t>()[args.first_token + r] + 1;
    BATON_CHECK(visible <= args.scores.dim(1), visible, args.scores.dim(1));
    const int64_t kept = std::min(visible, top_k);
    order.resize(static_cast<size_t>(visible));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](int32_t a, int32_t b) {
      const uint32_t key_a = score_key(scores[a]);
      const uint32_t key_b = score_key(scores[b]);
      return key_a != key_b ? key_a > key_b : a < b;
    });
    std::sort(order.begin(), order.begin() + kept);
    int32_t* out = args.selection.as<int32_t>() + r * args.selection.stride(0);
    std::copy(order.begin(), order.begin() + kept, out);
    std::fill(out + kept, out + top_k, -1);
  }
}

}  // namespace baton::reference
