#include <vector>

#include "kernels/reference/cache_rows.h"
#include "kernels/reference/dot.h"
#include "kernels/reference/ops.h"
#include "kernels/reference/softmax.h"

namespace baton::reference {
namespace {

// One query head of one token.
void attend(const GqaAttentionArgs& args, int64_t t, int64_t h) {
  const PlainRow& row = args.cache.row;
  const int64_t dim = row.head_dim;
  const int64_t kv_head = h / (args.q.dim(1) / row.kv_heads);
  const int64_t first_value = int64_t{row.kv_heads} * dim;
  const int64_t visible = args.batch.positions.as<int32_t>()[t] + 1;
  const float* q = args.q.as<float>() + t * args.q.stride(0) + h * args.q.stride(1);
  std::vector<double> scores(static_cast<size_t>(visible));
  std::vector<double> sums(static_cast<size_t>(dim));
  std::vector<float> key(static_cast<size_t>(dim));

  for (int64_t p = 0; p < visible; ++p) {
    const uint8_t* data = row_of(args.cache, args.batch, t, p);
    for (int64_t i = 0; i < dim; ++i) {
      key[static_cast<size_t>(i)] = plain_value(row, data, kv_head * dim + i);
    }
    scores[static_cast<size_t>(p)] = dot(q, key.data(), dim) * static_cast<double>(args.scale);
  }
  softmax(scores.data(), visible);
  for (int64_t p = 0; p < visible; ++p) {
    const uint8_t* data = row_of(args.cache, args.batch, t, p);
    const double probability = scores[static_cast<size_t>(p)];
    for (int64_t i = 0; i < dim; ++i) {
      sums[static_cast<size_t>(i)] +=
          probability *
          static_cast<double>(plain_value(row, data, first_value + kv_head * dim + i));
    }
  }
  float* out = args.out.as<float>() + t * args.out.stride(0) + h * args.out.stride(1);
  for (int64_t i = 0; i < dim; ++i) out[i] = static_cast<float>(sums[static_cast<size_t>(i)]);
}

}  // namespace

void gqa_attention(Queue&, const GqaAttentionArgs& args) {
  BATON_CHECK(args.q.dim(2) == args.cache.row.head_dim, args.q.dim(2));
  BATON_CHECK(args.q.dim(1) % args.cache.row.kv_heads == 0, args.q.dim(1));
  for (int64_t t = 0; t < args.q.dim(0); ++t) {
    for (int64_t h = 0; h < args.q.dim(1); ++h) attend(args, t, h);
  }
}

}  // namespace baton::reference
