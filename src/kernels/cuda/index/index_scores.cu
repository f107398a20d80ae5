// Indexer scores: one block per token and page of 64 positions, one warp per key. The queries
// of the token lie in shared memory; a lane holds its part of the key in registers.
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/primitives/reduce.cuh"

namespace baton::cuda {
namespace {

constexpr int kLaneValues = 8;  // dim <= 32 * 8

template <IndexKeyFormat kFormat>
__global__ void __launch_bounds__(kThreads) index_scores_kernel(Heads<const float> q,
                                                                Rows<const float> head_weights,
                                                                Batch batch,
                                                                IndexCache cache,
                                                                int32_t heads,
                                                                float scale,
                                                                int64_t first_token,
                                                                int32_t max_context,
                                                                Rows<float> scores) {
  float* query = dynamic_shared<float>();  // [heads, dim]
  const IndexPage page = {kFormat, cache.page.dim};
  const int32_t dim = page.dim;
  const int64_t token = first_token + blockIdx.x;
  const int32_t position = batch.positions[token];
  const int32_t first = static_cast<int32_t>(blockIdx.y) * kBlockTokens;
  const int32_t end = min(first + kBlockTokens, max_context);
  float* row = scores.row(blockIdx.x);
  if (first > position) {
    for (int32_t p = first + static_cast<int32_t>(threadIdx.x); p < end; p += kThreads) {
      row[p] = -INFINITY;
    }
    return;
  }
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < heads * dim; i += kThreads) {
    query[i] = q.row(token, i / dim)[i % dim];
  }
  __syncthreads();
  const uint8_t* data =
      cache.blocks + batch.block_of(token, first) * cache.block_stride + cache.offset;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  for (int32_t p = first + static_cast<int32_t>(threadIdx.x) / kWarp; p < end; p += kWarps) {
    if (p > position) {
      if (lane == 0) row[p] = -INFINITY;
      continue;
    }
    float key[kLaneValues];
#pragma unroll
    for (int32_t j = 0; j < kLaneValues; ++j) {
      const int32_t i = lane + j * kWarp;
      key[j] = i < dim ? index_key_value(page, data, p - first, i) : 0.0F;
    }
    float sum = 0.0F;
    for (int32_t head = 0; head < heads; ++head) {
      float dot = 0.0F;
#pragma unroll
      for (int32_t j = 0; j < kLaneValues; ++j) {
        const int32_t i = lane + j * kWarp;
        if (i < dim) dot = fmaf(query[head * dim + i], key[j], dot);
      }
      dot = warp_sum(dot);
      // A comparison that lets NaN through: a broken key must be seen, not scored as zero.
      sum = fmaf(head_weights.row(token)[head], dot < 0.0F ? 0.0F : dot, sum);
    }
    if (lane == 0) row[p] = sum * scale;
  }
}

// Scores of tokens [first_token, first_token + scores.dim(0)).
template <typename Args>
void launch_scores(Queue& queue, const Args& args, const Tensor& scores, int64_t first_token) {
  BATON_CHECK(args.cache.page.dim <= kLaneValues * kWarp, args.cache.page.dim);
  BATON_CHECK(args.q.dim(2) == args.cache.page.dim, describe(args.q), args.cache.page.dim);
  const int32_t heads = static_cast<int32_t>(args.q.dim(1));
  // The last columns of a wider workspace are nobody's positions, but select_top_k of another
  // table may read them: all are written.
  const int32_t max_context = static_cast<int32_t>(scores.dim(1));
  const auto run = [&](auto kernel) {
    launch(queue,
           "index_scores",
           kernel,
           grid(scores.dim(0), ceil_div(max_context, kBlockTokens)),
           kThreads,
           static_cast<size_t>(heads * args.cache.page.dim) * sizeof(float),
           heads_of(args.q),
           rows_of(args.head_weights),
           batch_of(args.batch),
           args.cache,
           heads,
           args.scale,
           first_token,
           max_context,
           rows_of(scores));
  };
  switch (args.cache.page.format) {
    case IndexKeyFormat::kF32:
      return run(&index_scores_kernel<IndexKeyFormat::kF32>);
    case IndexKeyFormat::kBF16:
      return run(&index_scores_kernel<IndexKeyFormat::kBF16>);
    case IndexKeyFormat::kFp8:
      return run(&index_scores_kernel<IndexKeyFormat::kFp8>);
  }
}

}  // namespace

void index_scores(Queue& queue, const IndexScoresArgs& args) {
  launch_scores(queue, args, args.scores, args.first_token);
}

void index_select(Queue& queue, const IndexSelectArgs& args) {
  const int64_t tokens = args.selection.dim(0);
  const int64_t group = args.scores.dim(0);
  BATON_CHECK(group > 0 || tokens == 0, describe(args.scores));
  for (int64_t first = 0; first < tokens; first += group) {
    const int64_t count = std::min(group, tokens - first);
    const Tensor scores = rows(args.scores, 0, count);
    launch_scores(queue, args, scores, first);
    select_top_k(queue,
                 {.scores = scores,
                  .batch = args.batch,
                  .first_token = first,
                  .selection = rows(args.selection, first, count)});
  }
}

}  // namespace baton::cuda
