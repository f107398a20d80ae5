#include "kernels/reference/cache_rows.h"
#include "kernels/reference/ops.h"

namespace baton::reference {

void store_latent(Queue&, const StoreLatentArgs& args) {
  BATON_CHECK(args.latent.dim(1) == args.cache.row.latent, args.latent.dim(1));
  BATON_CHECK(args.rope.dim(1) == args.cache.row.rope, args.rope.dim(1));
  const auto* positions = args.batch.positions.as<int32_t>();
  for (int64_t t = 0; t < args.latent.dim(0); ++t) {
    encode_latent_row(args.cache.row,
                      args.latent.as<float>() + t * args.latent.stride(0),
                      args.rope.as<float>() + t * args.rope.stride(0),
                      row_of(args.cache, args.batch, t, positions[t]));
  }
}

void store_index_keys(Queue&, const StoreIndexKeysArgs& args) {
  BATON_CHECK(args.keys.dim(1) == args.cache.page.dim, args.keys.dim(1));
  const auto* positions = args.batch.positions.as<int32_t>();
  for (int64_t t = 0; t < args.keys.dim(0); ++t) {
    encode_index_key(args.cache.page,
                     args.keys.as<float>() + t * args.keys.stride(0),
                     block_of(args.cache, args.batch, t, positions[t]),
                     positions[t] % kBlockTokens);
  }
}

void store_plain(Queue&, const StorePlainArgs& args) {
  const PlainRow& row = args.cache.row;
  const int64_t width = int64_t{row.kv_heads} * row.head_dim;
  BATON_CHECK(args.keys.dim(1) == width && args.values.dim(1) == width, args.keys.dim(1), width);
  const auto* positions = args.batch.positions.as<int32_t>();
  for (int64_t t = 0; t < args.keys.dim(0); ++t) {
    const float* keys = args.keys.as<float>() + t * args.keys.stride(0);
    const float* values = args.values.as<float>() + t * args.values.stride(0);
    uint8_t* data = row_of(args.cache, args.batch, t, positions[t]);
    for (int64_t i = 0; i < width; ++i) {
      store_plain_value(row, data, i, keys[i]);
      store_plain_value(row, data, width + i, values[i]);
    }
  }
}

}  // namespace baton::reference
