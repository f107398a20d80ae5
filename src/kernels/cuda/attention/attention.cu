// mla_attention and gqa_attention: one block per token and group of kTileHeads query heads.
#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/ops.h"

namespace baton::cuda {
namespace {

template <LatentRowFormat kFormat>
struct LatentSource {
  static constexpr bool kValuesInKeys = true;
  LatentRow shape;
  Heads<const float> q_latent;
  Heads<const float> q_rope;

  // The format as a constant, so that the switches in row_formats fold away.
  __host__ __device__ LatentRow constant_row() const { return {kFormat, shape.latent, shape.rope}; }
  __host__ __device__ int32_t key_width() const { return shape.latent + shape.rope; }
  __host__ __device__ int32_t value_width() const { return shape.latent; }
  __device__ float query(int64_t token, int32_t head, int32_t i) const {
    return i < shape.latent ? q_latent.row(token, head)[i]
                            : q_rope.row(token, head)[i - shape.latent];
  }
  __device__ const uint8_t* row(const uint8_t* layer, int32_t slot) const {
    return layer + slot * latent_row_bytes(constant_row());
  }
  __device__ float key(const uint8_t* data, int32_t i) const {
    return i < shape.latent ? latent_value(constant_row(), data, i)
                            : rope_value(constant_row(), data, i - shape.latent);
  }
  __device__ float value(const uint8_t* data, int32_t i) const { return key(data, i); }
};

template <PlainRowFormat kFormat>
struct PlainSource {
  static constexpr bool kValuesInKeys = false;
  PlainRow shape;
  Heads<const float> q;
  int32_t kv_head;

  __host__ __device__ PlainRow constant_row() const {
    return {kFormat, shape.kv_heads, shape.head_dim};
  }
  __host__ __device__ int32_t key_width() const { return shape.head_dim; }
  __host__ __device__ int32_t value_width() const { return shape.head_dim; }
  __device__ float query(int64_t token, int32_t head, int32_t i) const {
    return q.row(token, head)[i];
  }
  __device__ const uint8_t* row(const uint8_t* layer, int32_t slot) const {
    return layer + slot * plain_row_bytes(constant_row());
  }
  __device__ float key(const uint8_t* data, int32_t i) const {
    return plain_value(constant_row(), data, int64_t{kv_head} * shape.head_dim + i);
  }
  __device__ float value(const uint8_t* data, int32_t i) const {
    return plain_value(
        constant_row(), data, int64_t{shape.kv_heads + kv_head} * shape.head_dim + i);
  }
};

template <LatentRowFormat kFormat>
__global__ void __launch_bounds__(kThreads) mla_attention_kernel(LatentSource<kFormat> source,
                                                                 Batch batch,
                                                                 Visible visible,
                                                                 LatentCache cache,
                                                                 int32_t heads,
                                                                 float scale,
                                                                 Heads<float> out) {
  const int32_t first = static_cast<int32_t>(blockIdx.y) * kTileHeads;
  attend(source,
         batch,
         visible,
         cache.blocks,
         cache.block_stride,
         cache.offset,
         first,
         min(kTileHeads, heads - first),
         scale,
         out);
}

// blockIdx.y = kv head, z = tile of its query heads.
template <PlainRowFormat kFormat>
__global__ void __launch_bounds__(kThreads) gqa_attention_kernel(PlainSource<kFormat> source,
                                                                 Batch batch,
                                                                 PlainCache cache,
                                                                 int32_t group,
                                                                 float scale,
                                                                 Heads<float> out) {
  source.kv_head = static_cast<int32_t>(blockIdx.y);
  const int32_t first = static_cast<int32_t>(blockIdx.z) * kTileHeads;
  attend(source,
         batch,
         Visible{{nullptr, 0}, 0},
         cache.blocks,
         cache.block_stride,
         cache.offset,
         source.kv_head * group + first,
         min(kTileHeads, group - first),
         scale,
         out);
}

template <LatentRowFormat kFormat>
void launch_mla(Queue& queue, const MlaAttentionArgs& args) {
  const LatentSource<kFormat> source = {
      args.cache.row, heads_of(args.q_latent), heads_of(args.q_rope)};
  Visible visible = {{nullptr, 0}, 0};
  if (!args.selection.empty()) {
    visible = {i32_rows_of(args.selection), args.selection.dim(1)};
  }
  const int32_t heads = static_cast<int32_t>(args.q_latent.dim(1));
  launch(queue,
         "mla_attention",
         &mla_attention_kernel<kFormat>,
         grid(args.q_latent.dim(0), ceil_div(heads, kTileHeads)),
         kThreads,
         attention_shared_bytes(source),
         source,
         batch_of(args.batch),
         visible,
         args.cache,
         heads,
         args.scale,
         heads_of(args.out));
}

template <PlainRowFormat kFormat>
void launch_gqa(Queue& queue, const GqaAttentionArgs& args) {
  const PlainSource<kFormat> source = {args.cache.row, heads_of(args.q), 0};
  const int32_t group = static_cast<int32_t>(args.q.dim(1)) / args.cache.row.kv_heads;
  launch(queue,
         "gqa_attention",
         &gqa_attention_kernel<kFormat>,
         grid(args.q.dim(0), args.cache.row.kv_heads, ceil_div(group, kTileHeads)),
         kThreads,
         attention_shared_bytes(source),
         source,
         batch_of(args.batch),
         args.cache,
         group,
         args.scale,
         heads_of(args.out));
}

}  // namespace

void mla_attention(Queue& queue, const MlaAttentionArgs& args) {
  BATON_CHECK(args.cache.row.latent <= kThreads * kThreadColumns, args.cache.row.latent);
  BATON_CHECK(
      args.q_latent.dim(2) == args.cache.row.latent && args.q_rope.dim(2) == args.cache.row.rope,
      describe(args.q_latent),
      describe(args.q_rope));
  switch (args.cache.row.format) {
    case LatentRowFormat::kF32:
      return launch_mla<LatentRowFormat::kF32>(queue, args);
    case LatentRowFormat::kBF16:
      return launch_mla<LatentRowFormat::kBF16>(queue, args);
    case LatentRowFormat::kFp8:
      return launch_mla<LatentRowFormat::kFp8>(queue, args);
    case LatentRowFormat::kNvfp4:
      return launch_mla<LatentRowFormat::kNvfp4>(queue, args);
  }
}

void gqa_attention(Queue& queue, const GqaAttentionArgs& args) {
  BATON_CHECK(args.cache.row.head_dim <= kThreads * kThreadColumns, args.cache.row.head_dim);
  BATON_CHECK(
      args.q.dim(1) % args.cache.row.kv_heads == 0 && args.q.dim(2) == args.cache.row.head_dim,
      describe(args.q));
  switch (args.cache.row.format) {
    case PlainRowFormat::kF32:
      return launch_gqa<PlainRowFormat::kF32>(queue, args);
    case PlainRowFormat::kBF16:
      return launch_gqa<PlainRowFormat::kBF16>(queue, args);
  }
}

}  // namespace baton::cuda
