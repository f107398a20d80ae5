#include <cmath>
#include <vector>

#include "kernels/reference/cache_rows.h"
#include "kernels/reference/dot.h"
#include "kernels/reference/ops.h"

namespace baton::reference {
namespace {

// q: [heads, dim]; head_weights: [heads]; key: [dim].
double score(const float* q,
             int64_t q_stride,
             const float* head_weights,
             const float* key,
             int64_t heads,
             int64_t dim) {
  double total = 0.0;
  for (int64_t h = 0; h < heads; ++h) {
    const double product = dot(q + h * q_stride, key, dim);
    // A comparison that lets NaN through: a broken key must be seen, not scored as zero.
    total += static_cast<double>(head_weights[h]) * (product < 0.0 ? 0.0 : product);
  }
  return total;
}

}  // namespace

void index_scores(Queue&, const IndexScoresArgs& args) {
  const IndexPage& page = args.cache.page;
  BATON_CHECK(args.q.dim(2) == page.dim, args.q.dim(2), page.dim);
  std::vector<float> key(static_cast<size_t>(page.dim));
  for (int64_t r = 0; r < args.scores.dim(0); ++r) {
    const int64_t t = args.first_token + r;
    const int64_t visible = args.batch.positions.as<int32_t>()[t] + 1;
    BATON_CHECK(visible <= args.scores.dim(1), visible, args.scores.dim(1));
    float* out = args.scores.as<float>() + r * args.scores.stride(0);
    for (int64_t p = 0; p < args.scores.dim(1); ++p) {
      out[p] = -INFINITY;
      if (p >= visible) continue;
      const uint8_t* data = block_of(args.cache, args.batch, t, p);
      for (int32_t i = 0; i < page.dim; ++i) {
        key[static_cast<size_t>(i)] =
            index_key_value(page, data, static_cast<int32_t>(p % kBlockTokens), i);
      }
      out[p] =
          static_cast<float>(score(args.q.as<float>() + t * args.q.stride(0),
                                   args.q.stride(1),
                                   args.head_weights.as<float>() + t * args.head_weights.stride(0),
                                   key.data(),
                                   args.q.dim(1),
                                   page.dim) *
                             static_cast<double>(args.scale));
    }
  }
}

}  // namespace baton::reference
