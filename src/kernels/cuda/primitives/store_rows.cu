// Encodes this step's rows into the KV blocks their positions fall in. The byte arithmetic is
// kv_cache/row_formats, shared with the host. A token without a block (position or table entry
// below 0: padding of a captured graph) is skipped.
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"

namespace baton::cuda {
namespace {

// blocks + block * stride + offset of token t's block; null: none.
__device__ uint8_t* layer_of_token(
    const Batch& batch, int64_t t, uint8_t* blocks, int64_t block_stride, int64_t offset) {
  const int32_t position = batch.positions[t];
  if (position < 0) return nullptr;
  const int32_t block = batch.block_of(t, position);
  return block < 0 ? nullptr : blocks + block * block_stride + offset;
}

// One thread per token and piece of its row.
__global__ void store_latent_kernel(Rows<const float> latent,
                                    Rows<const float> rope,
                                    Batch batch,
                                    LatentCache cache,
                                    int64_t tokens) {
  const int64_t pieces = latent_pieces(cache.row) + 1;
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t token = at / pieces;
  if (token >= tokens) return;
  uint8_t* layer = layer_of_token(batch, token, cache.blocks, cache.block_stride, cache.offset);
  if (layer == nullptr) return;
  uint8_t* row = layer + batch.positions[token] % kBlockTokens * latent_row_bytes(cache.row);
  const int32_t piece = static_cast<int32_t>(at % pieces);
  if (piece + 1 == pieces) {
    encode_rope(cache.row, rope.row(token), row);
  } else {
    encode_latent_piece(cache.row, latent.row(token), piece, row);
  }
}

// One thread per token: a key has one scale.
__global__ void store_index_keys_kernel(Rows<const float> keys,
                                        Batch batch,
                                        IndexCache cache,
                                        int64_t tokens) {
  const int64_t token = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  uint8_t* page = layer_of_token(batch, token, cache.blocks, cache.block_stride, cache.offset);
  if (page == nullptr) return;
  encode_index_key(cache.page, keys.row(token), page, batch.positions[token] % kBlockTokens);
}

// One thread per value of the row.
__global__ void store_plain_kernel(Rows<const float> keys,
                                   Rows<const float> values,
                                   Batch batch,
                                   PlainCache cache,
                                   int64_t tokens) {
  const int64_t width = int64_t{cache.row.kv_heads} * cache.row.head_dim;
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t token = at / (2 * width);
  if (token >= tokens) return;
  uint8_t* layer = layer_of_token(batch, token, cache.blocks, cache.block_stride, cache.offset);
  if (layer == nullptr) return;
  uint8_t* row = layer + batch.positions[token] % kBlockTokens * plain_row_bytes(cache.row);
  const int64_t i = at % (2 * width);
  const float value = i < width ? keys.row(token)[i] : values.row(token)[i - width];
  store_plain_value(cache.row, row, i, value);
}

}  // namespace

void store_latent(Queue& queue, const StoreLatentArgs& args) {
  const int64_t tokens = args.latent.dim(0);
  BATON_CHECK(
      args.latent.dim(1) == args.cache.row.latent && args.rope.dim(1) == args.cache.row.rope,
      describe(args.latent),
      describe(args.rope));
  launch(queue,
         "store_latent",
         &store_latent_kernel,
         grid_of(tokens * (latent_pieces(args.cache.row) + 1)),
         kThreads,
         0,
         rows_of(args.latent),
         rows_of(args.rope),
         batch_of(args.batch),
         args.cache,
         tokens);
}

void store_index_keys(Queue& queue, const StoreIndexKeysArgs& args) {
  const int64_t tokens = args.keys.dim(0);
  BATON_CHECK(args.keys.dim(1) == args.cache.page.dim, describe(args.keys), args.cache.page.dim);
  constexpr int kFewThreads = 32;  // long serial rows: spread them over more multiprocessors
  launch(queue,
         "store_index_keys",
         &store_index_keys_kernel,
         grid(ceil_div(tokens, kFewThreads)),
         kFewThreads,
         0,
         rows_of(args.keys),
         batch_of(args.batch),
         args.cache,
         tokens);
}

void store_plain(Queue& queue, const StorePlainArgs& args) {
  const int64_t tokens = args.keys.dim(0);
  const int64_t width = int64_t{args.cache.row.kv_heads} * args.cache.row.head_dim;
  BATON_CHECK(args.keys.dim(1) == width && args.values.dim(1) == width,
              describe(args.keys),
              describe(args.values));
  launch(queue,
         "store_plain",
         &store_plain_kernel,
         grid_of(tokens * 2 * width),
         kThreads,
         0,
         rows_of(args.keys),
         rows_of(args.values),
         batch_of(args.batch),
         args.cache,
         tokens);
}

}  // namespace baton::cuda
