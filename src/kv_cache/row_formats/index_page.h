// The index keys of one block in one layer that has an indexer: 64 keys of `dim` values.
//   fp8    64 x dim e4m3, then 64 f32 scales: 8,448 B at dim 128, as DeepGEMM's page
//   bf16   64 x dim bf16
//   f32    64 x dim f32
// fp8 scales are rounded up to a power of two.
#pragma once

#include "kv_cache/row_formats/latent_row.h"

namespace baton {

// Tokens in a block. Fixed: DeepGEMM's FP8 index page on Hopper must be 64, and one block is
// one descriptor, one hash and one transfer.
constexpr int32_t kBlockTokens = 64;

enum class IndexKeyFormat : uint8_t { kF32, kBF16, kFp8 };

struct IndexPage {
  IndexKeyFormat format = IndexKeyFormat::kFp8;
  int32_t dim = 128;  // index_head_dim
};

BATON_HOST_DEVICE inline int64_t index_page_bytes(const IndexPage& page) {
  switch (page.format) {
    case IndexKeyFormat::kF32:
      return int64_t{4} * kBlockTokens * page.dim;
    case IndexKeyFormat::kBF16:
      return int64_t{2} * kBlockTokens * page.dim;
    case IndexKeyFormat::kFp8:
      return int64_t{kBlockTokens} * (page.dim + 4);
  }
  return 0;
}

// Value i of the key in `slot` (0 <= slot < 64) of a page.
BATON_HOST_DEVICE inline float index_key_value(const IndexPage& page,
                                               const uint8_t* data,
                                               int32_t slot,
                                               int32_t i) {
  const int64_t at = int64_t{slot} * page.dim + i;
  switch (page.format) {
    case IndexKeyFormat::kF32:
      return load_f32(data + 4 * at);
    case IndexKeyFormat::kBF16:
      return load_bf16(data + 2 * at);
    case IndexKeyFormat::kFp8:
      return e4m3_to_float(data[at]) * load_f32(data + int64_t{kBlockTokens} * page.dim + 4 * slot);
  }
  return 0.0F;
}

// key: [page.dim] f32.
BATON_HOST_DEVICE inline void encode_index_key(const IndexPage& page,
                                               const float* key,
                                               uint8_t* data,
                                               int32_t slot) {
  const int64_t first = int64_t{slot} * page.dim;
  switch (page.format) {
    case IndexKeyFormat::kF32:
      for (int32_t i = 0; i < page.dim; ++i) store_f32(data + 4 * (first + i), key[i]);
      break;
    case IndexKeyFormat::kBF16:
      for (int32_t i = 0; i < page.dim; ++i) store_bf16(data + 2 * (first + i), key[i]);
      break;
    case IndexKeyFormat::kFp8: {
      float amax = 0.0F;
      for (int32_t i = 0; i < page.dim; ++i) amax = fmaxf(amax, fabsf(key[i]));
      const float scale = fp8_scale(amax);
      store_f32(data + int64_t{kBlockTokens} * page.dim + 4 * slot, scale);
      for (int32_t i = 0; i < page.dim; ++i) data[first + i] = float_to_e4m3(key[i] / scale);
      break;
    }
  }
}

}  // namespace baton
