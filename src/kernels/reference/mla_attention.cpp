#include <vector>

#include "kernels/reference/cache_rows.h"
#include "kernels/reference/dot.h"
#include "kernels/reference/ops.h"
#include "kernels/reference/softmax.h"

namespace baton::reference {
namespace {

// The positions token t attends to, ascending: its selection, or all it sees.
std::vector<int32_t> attended(const MlaAttentionArgs& args, int64_t t) {
  const int32_t visible = args.batch.positions.as<int32_t>()[t] + 1;
  std::vector<int32_t> list;
  if (args.selection.empty()) {
    for (int32_t p = 0; p < visible; ++p) list.push_back(p);
    return list;
  }
  const int32_t* selection = args.selection.as<int32_t>() + t * args.selection.stride(0);
  for (int64_t i = 0; i < args.selection.dim(1) && selection[i] >= 0; ++i) {
    BATON_CHECK(selection[i] < visible, selection[i], visible);
    list.push_back(selection[i]);
  }
  return list;
}

void decode(const LatentRow& row, const uint8_t* data, float* latent, float* rope) {
  for (int32_t i = 0; i < row.latent; ++i) latent[i] = latent_value(row, data, i);
  for (int32_t i = 0; i < row.rope; ++i) rope[i] = rope_value(row, data, i);
}

// One token: scores of all heads, softmax, then the weighted sum; each row is decoded twice.
void attend(const MlaAttentionArgs& args, int64_t t) {
  const LatentRow& row = args.cache.row;
  const int64_t heads = args.q_latent.dim(1);
  const std::vector<int32_t> list = attended(args, t);
  const auto count = static_cast<int64_t>(list.size());
  std::vector<double> scores(static_cast<size_t>(heads * count));  // [heads, count]
  std::vector<double> sums(static_cast<size_t>(heads * row.latent));
  std::vector<float> latent(static_cast<size_t>(row.latent));
  std::vector<float> rope(static_cast<size_t>(row.rope));

  for (int64_t i = 0; i < count; ++i) {
    const int32_t position = list[static_cast<size_t>(i)];
    decode(row, row_of(args.cache, args.batch, t, position), latent.data(), rope.data());
    for (int64_t h = 0; h < heads; ++h) {
      const float* q_latent =
          args.q_latent.as<float>() + t * args.q_latent.stride(0) + h * args.q_latent.stride(1);
      const float* q_rope =
          args.q_rope.as<float>() + t * args.q_rope.stride(0) + h * args.q_rope.stride(1);
      scores[static_cast<size_t>(h * count + i)] =
          (dot(q_latent, latent.data(), row.latent) + dot(q_rope, rope.data(), row.rope)) *
          static_cast<double>(args.scale);
    }
  }
  for (int64_t h = 0; h < heads && count > 0; ++h) softmax(scores.data() + h * count, count);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t position = list[static_cast<size_t>(i)];
    decode(row, row_of(args.cache, args.batch, t, position), latent.data(), rope.data());
    for (int64_t h = 0; h < heads; ++h) {
      const double probability = scores[static_cast<size_t>(h * count + i)];
      double* sum = sums.data() + h * row.latent;
      for (int32_t j = 0; j < row.latent; ++j)
        sum[j] += probability * static_cast<double>(latent[static_cast<size_t>(j)]);
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    float* out = args.out.as<float>() + t * args.out.stride(0) + h * args.out.stride(1);
    for (int32_t j = 0; j < row.latent; ++j) {
      out[j] = static_cast<float>(sums[static_cast<size_t>(h * row.latent + j)]);
    }
  }
}

}  // namespace

void mla_attention(Queue&, const MlaAttentionArgs& args) {
  BATON_CHECK(args.q_latent.dim(2) == args.cache.row.latent, args.q_latent.dim(2));
  BATON_CHECK(args.q_rope.dim(2) == args.cache.row.rope, args.q_rope.dim(2));
  for (int64_t t = 0; t < args.q_latent.dim(0); ++t) attend(args, t);
}

}  // namespace baton::reference
