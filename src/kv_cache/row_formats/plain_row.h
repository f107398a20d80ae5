// One token's keys and values in one layer of a GQA model: [kv_heads, head_dim] keys, then the
// same of values, in f32 or bf16.
#pragma once

#include "kv_cache/row_formats/latent_row.h"

namespace baton {

enum class PlainRowFormat : uint8_t { kF32, kBF16 };

struct PlainRow {
  PlainRowFormat format = PlainRowFormat::kBF16;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
};

BATON_HOST_DEVICE inline int64_t plain_row_bytes(const PlainRow& row) {
  const int64_t width = row.format == PlainRowFormat::kF32 ? 4 : 2;
  return (2 * width * row.kv_heads * row.head_dim + 15) / 16 * 16;
}

// i indexes the row: [0, kv_heads * head_dim) keys, then as many values.
BATON_HOST_DEVICE inline float plain_value(const PlainRow& row, const uint8_t* data, int64_t i) {
  return row.format == PlainRowFormat::kF32 ? load_f32(data + 4 * i) : load_bf16(data + 2 * i);
}

BATON_HOST_DEVICE inline void store_plain_value(const PlainRow& row,
                                                uint8_t* data,
                                                int64_t i,
                                                float value) {
  if (row.format == PlainRowFormat::kF32) {
    store_f32(data + 4 * i, value);
  } else {
    store_bf16(data + 2 * i, value);
  }
}

}  // namespace baton
