// The formats of one token's MLA latent row in one layer: `latent` compressed values (also the
// attention values) followed by `rope` rotated key values. Exact byte arithmetic shared by
// host and device code; who owns blocks is not known here.
//
//   f32    latent f32, rope f32                                  parity runs
//   bf16   latent bf16, rope bf16                                1,152 B at 512 + 64
//   fp8    latent e4m3, one f32 scale per 128, rope bf16           656 B at 512 + 64
//          (FlashMLA "fp8_ds_mla"; our writer rounds scales up to a power of two, which
//          every reader decodes exactly)
//   nvfp4  latent e2m1 (element 2i in the low nibble), rope e4m3 without a scale, one e4m3
//          scale per 16 latents in the 4 x n/4 transposed order   352 B at 512 + 64
//          (vLLM "nvfp4_ds_mla")
//
// Source: FlashMLA README and tests/quant.py; vLLM csrc nvfp4_ds_mla_cache_kernels.
#pragma once

#include <cstdint>

#include "base/numeric.h"

namespace baton {

enum class LatentRowFormat : uint8_t { kF32, kBF16, kFp8, kNvfp4 };

struct LatentRow {
  LatentRowFormat format = LatentRowFormat::kBF16;
  int32_t latent = 512;  // kv_lora_rank; a multiple of 16 for nvfp4
  int32_t rope = 64;     // qk_rope_head_dim
};

constexpr int32_t kFp8ScaleGroup = 128;
constexpr int32_t kNvfp4ScaleGroup = 16;

BATON_HOST_DEVICE inline int64_t latent_row_scale_groups(const LatentRow& row) {
  return (row.latent + kFp8ScaleGroup - 1) / kFp8ScaleGroup;
}

// Bytes of one row, rounded up to 16 so that every row can be read with 16-byte accesses.
BATON_HOST_DEVICE inline int64_t latent_row_bytes(const LatentRow& row) {
  int64_t bytes = 0;
  switch (row.format) {
    case LatentRowFormat::kF32:
      bytes = 4 * (row.latent + row.rope);
      break;
    case LatentRowFormat::kBF16:
      bytes = 2 * (row.latent + row.rope);
      break;
    case LatentRowFormat::kFp8:
      bytes = (row.latent + 3) / 4 * 4 + 4 * latent_row_scale_groups(row) + 2 * row.rope;
      break;
    case LatentRowFormat::kNvfp4:
      bytes = row.latent / 2 + row.rope + row.latent / kNvfp4ScaleGroup;
      break;
  }
  return (bytes + 15) / 16 * 16;
}

// Offset of the fp8 row's scales: right after the latents, 4-byte aligned.
BATON_HOST_DEVICE inline int64_t fp8_scale_offset(const LatentRow& row) {
  return (row.latent + 3) / 4 * 4;
}

// Where block b of nvfp4 scales is stored: a 4 x n/4 transpose (8*(b mod 4) + b/4 at n = 32), so
// that one thread's four k-steps lie together; plain order when n is not a multiple of 4.
BATON_HOST_DEVICE inline int64_t nvfp4_scale_offset(const LatentRow& row, int32_t b) {
  const int32_t n = row.latent / kNvfp4ScaleGroup;
  const int32_t place = n % 4 == 0 ? n / 4 * (b % 4) + b / 4 : b;
  return row.latent / 2 + row.rope + place;
}

BATON_HOST_DEVICE inline float load_f32(const uint8_t* p) {
  float value;
  memcpy(&value, p, sizeof value);
  return value;
}
BATON_HOST_DEVICE inline void store_f32(uint8_t* p, float value) {
  memcpy(p, &value, sizeof value);
}
BATON_HOST_DEVICE inline float load_bf16(const uint8_t* p) {
  uint16_t bits;
  memcpy(&bits, p, sizeof bits);
  return bf16_to_float(bits);
}
BATON_HOST_DEVICE inline void store_bf16(uint8_t* p, float value) {
  const uint16_t bits = float_to_bf16(value);
  memcpy(p, &bits, sizeof bits);
}

// The smallest e4m3 value >= value (0 < value <= 448).
BATON_HOST_DEVICE inline uint8_t float_to_e4m3_up(float value) {
  const uint8_t code = float_to_e4m3(value);
  return static_cast<uint8_t>(e4m3_to_float(code) < value && code < 0x7e ? code + 1 : code);
}

// amax / 448 rounded up to a power of two; the floor keeps all-zero groups finite.
BATON_HOST_DEVICE inline float fp8_scale(float amax) {
  return ceil_power_of_two((amax > 1e-4F ? amax : 1e-4F) / 448.0F);
}

// Latent value i (0 <= i < latent) of an encoded row.
BATON_HOST_DEVICE inline float latent_value(const LatentRow& row, const uint8_t* data, int32_t i) {
  switch (row.format) {
    case LatentRowFormat::kF32:
      return load_f32(data + 4 * i);
    case LatentRowFormat::kBF16:
      return load_bf16(data + 2 * i);
    case LatentRowFormat::kFp8:
      return e4m3_to_float(data[i]) *
             load_f32(data + fp8_scale_offset(row) + 4 * (i / kFp8ScaleGroup));
    case LatentRowFormat::kNvfp4: {
      const uint32_t pair = data[i / 2];
      const float scale = e4m3_to_float(data[nvfp4_scale_offset(row, i / kNvfp4ScaleGroup)]);
      return e2m1_to_float((i & 1) != 0 ? pair >> 4 : pair & 15U) * scale;
    }
  }
  return 0.0F;
}

// Rotated key value i (0 <= i < rope) of an encoded row.
BATON_HOST_DEVICE inline float rope_value(const LatentRow& row, const uint8_t* data, int32_t i) {
  switch (row.format) {
    case LatentRowFormat::kF32:
      return load_f32(data + 4 * (row.latent + i));
    case LatentRowFormat::kBF16:
      return load_bf16(data + 2 * (row.latent + i));
    case LatentRowFormat::kFp8:
      return load_bf16(data + fp8_scale_offset(row) + 4 * latent_row_scale_groups(row) + 2 * i);
    case LatentRowFormat::kNvfp4:
      return e4m3_to_float(data[row.latent / 2 + i]);
  }
  return 0.0F;
}

// A row is encoded in independent pieces, so that device threads can share one: pieces
// [0, latent_pieces) hold latents (a scale group each, where the format has scales), the last
// one holds the rope values.
BATON_HOST_DEVICE inline int32_t latent_piece_size(const LatentRow& row) {
  return row.format == LatentRowFormat::kFp8 ? kFp8ScaleGroup : kNvfp4ScaleGroup;
}
BATON_HOST_DEVICE inline int32_t latent_pieces(const LatentRow& row) {
  return (row.latent + latent_piece_size(row) - 1) / latent_piece_size(row);
}

// latent: [row.latent] f32; 0 <= piece < latent_pieces(row).
BATON_HOST_DEVICE inline void encode_latent_piece(const LatentRow& row,
                                                  const float* latent,
                                                  int32_t piece,
                                                  uint8_t* data) {
  const int32_t first = piece * latent_piece_size(row);
  const int32_t wanted_end = first + latent_piece_size(row);
  const int32_t end = wanted_end < row.latent ? wanted_end : row.latent;
  float amax = 0.0F;
  for (int32_t i = first; i < end; ++i) amax = fmaxf(amax, fabsf(latent[i]));
  switch (row.format) {
    case LatentRowFormat::kF32:
      for (int32_t i = first; i < end; ++i) store_f32(data + 4 * i, latent[i]);
      break;
    case LatentRowFormat::kBF16:
      for (int32_t i = first; i < end; ++i) store_bf16(data + 2 * i, latent[i]);
      break;
    case LatentRowFormat::kFp8: {
      const float scale = fp8_scale(amax);
      store_f32(data + fp8_scale_offset(row) + 4 * piece, scale);
      for (int32_t i = first; i < end; ++i) data[i] = float_to_e4m3(latent[i] / scale);
      break;
    }
    case LatentRowFormat::kNvfp4: {
      const uint8_t code = float_to_e4m3_up(fmaxf(amax / 6.0F, 0.001953125F));
      const float scale = e4m3_to_float(code);
      data[nvfp4_scale_offset(row, piece)] = code;
      for (int32_t i = first; i < end; i += 2) {
        data[i / 2] = static_cast<uint8_t>(float_to_e2m1(latent[i] / scale) |
                                           (float_to_e2m1(latent[i + 1] / scale) << 4));
      }
      break;
    }
  }
}

// rope: [row.rope] f32.
BATON_HOST_DEVICE inline void encode_rope(const LatentRow& row, const float* rope, uint8_t* data) {
  switch (row.format) {
    case LatentRowFormat::kF32:
      for (int32_t i = 0; i < row.rope; ++i) store_f32(data + 4 * (row.latent + i), rope[i]);
      break;
    case LatentRowFormat::kBF16:
      for (int32_t i = 0; i < row.rope; ++i) store_bf16(data + 2 * (row.latent + i), rope[i]);
      break;
    case LatentRowFormat::kFp8: {
      uint8_t* to = data + fp8_scale_offset(row) + 4 * latent_row_scale_groups(row);
      for (int32_t i = 0; i < row.rope; ++i) store_bf16(to + 2 * i, rope[i]);
      break;
    }
    case LatentRowFormat::kNvfp4:
      for (int32_t i = 0; i < row.rope; ++i) data[row.latent / 2 + i] = float_to_e4m3(rope[i]);
      break;
  }
}

// latent: [row.latent] f32; rope: [row.rope] f32; data: latent_row_bytes(row) bytes.
BATON_HOST_DEVICE inline void encode_latent_row(const LatentRow& row,
                                                const float* latent,
                                                const float* rope,
                                                uint8_t* data) {
  const int32_t pieces = latent_pieces(row);
  for (int32_t piece = 0; piece < pieces; ++piece) encode_latent_piece(row, latent, piece, data);
  encode_rope(row, rope, data);
}

}  // namespace baton
