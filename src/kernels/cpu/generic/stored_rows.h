// Reading rows of a stored matrix into registers, one struct per form. begin_block is called
// for N rows before the columns of a scale block; load() reads kLanes columns of row `row + n`,
// n < N; tail() reads the last, incomplete vector. load_wide() reads kWide vectors at once, where
// that is cheaper.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/cpu/microkernels.h"

namespace baton::cpu {

// How far ahead of a stream to ask for it: rows end every page or three, where the processor's
// own prefetch starts anew.
constexpr int64_t kPrefetchBytes = 1024;

template <typename S, DType kForm>
struct PlainRows {
  static constexpr int kWide = 1;
  using T = std::conditional_t<kForm == DType::kF32,
                               float,
                               std::conditional_t<kForm == DType::kF8E4M3, uint8_t, uint16_t>>;
  const T* data;
  int64_t columns;

  PlainRows(const WeightView& weight, int64_t first)
      : data(static_cast<const T*>(weight.data) + first * weight.columns),
        columns(weight.columns) {}
  static typename S::V widen(const T* from) {
    if constexpr (kForm == DType::kF32) return S::load(from);
    if constexpr (kForm == DType::kBF16) return S::load_bf16(from);
    if constexpr (kForm == DType::kF16) return S::load_f16(from);
    if constexpr (kForm == DType::kF8E4M3) return S::load_e4m3(from);
  }
  static constexpr int64_t kAhead = kPrefetchBytes / int64_t{sizeof(T)};
  void prefetch(int64_t row, int n, int64_t k) const {
    __builtin_prefetch(data + (row + n) * columns + k);
  }
  int64_t block_columns() const { return columns; }
  template <int N>
  void begin_block(int64_t, int64_t) {}
  typename S::V load(int64_t row, int n, int64_t k) const {
    return widen(data + (row + n) * columns + k);
  }
  typename S::V tail(int64_t row, int n, int64_t k) const {
    T values[S::kLanes] = {};
    std::memcpy(
        values, data + (row + n) * columns + k, static_cast<size_t>(columns - k) * sizeof(T));
    return widen(values);
  }
};

template <typename S>
struct Fp8Rows {
  static constexpr int kWide = S::kWide;
  const uint8_t* data;
  const float* scales;
  int64_t columns, width, blocks, first, block_rows;
  typename S::V scale[8];  // times 256

  Fp8Rows(const WeightView& weight, int64_t first_row)
      : data(static_cast<const uint8_t*>(weight.data) + first_row * weight.columns),
        scales(static_cast<const float*>(weight.scales)),
        columns(weight.columns),
        width(weight.block_columns),
        blocks((weight.columns + weight.block_columns - 1) / weight.block_columns),
        first(first_row),
        block_rows(weight.block_rows) {}
  static constexpr int64_t kAhead = kPrefetchBytes;
  void prefetch(int64_t row, int n, int64_t k) const {
    __builtin_prefetch(data + (row + n) * columns + k);
  }
  int64_t block_columns() const { return width; }
  template <int N>
  void begin_block(int64_t row, int64_t k) {
    for (int n = 0; n < N; ++n) {
      scale[n] = S::set(256.0F * scales[(first + row + n) / block_rows * blocks + k / width]);
    }
  }
  void load_wide(int64_t row, int n, int64_t k, typename S::V* out) const {
    S::load_e4m3_over_256_wide(data + (row + n) * columns + k, out);
#pragma GCC unroll 8
    for (int v = 0; v < kWide; ++v) out[v] = S::mul(out[v], scale[n]);
  }
  typename S::V load(int64_t row, int n, int64_t k) const {
    return S::mul(S::load_e4m3_over_256(data + (row + n) * columns + k), scale[n]);
  }
  typename S::V tail(int64_t row, int n, int64_t k) const {
    uint8_t values[S::kLanes] = {};
    std::memcpy(values, data + (row + n) * columns + k, static_cast<size_t>(columns - k));
    return S::mul(S::load_e4m3_over_256(values), scale[n]);
  }
};

template <typename S>
struct Nvfp4Rows {
  static constexpr int kWide = 1;
  static constexpr int kScales = 16;  // expanded at a time, of each row
  static constexpr int64_t kColumns = int64_t{16} * kScales;

  const uint8_t* pairs;
  const uint8_t* scales;
  int64_t columns, row_bytes, row_scales;
  float global;
  float scale[8][kScales];  // of this block, with the matrix's own multiplier

  Nvfp4Rows(const WeightView& weight, int64_t first)
      : pairs(static_cast<const uint8_t*>(weight.data) + first * (weight.columns / 2)),
        scales(static_cast<const uint8_t*>(weight.scales) + first * (weight.columns / 16)),
        columns(weight.columns),
        row_bytes(weight.columns / 2),
        row_scales(weight.columns / 16),
        global(weight.global_scale) {}
  static constexpr int64_t kAhead = 2 * kPrefetchBytes;
  void prefetch(int64_t, int, int64_t) const {}  // begin_block does, once per cache line
  int64_t block_columns() const { return kColumns; }
  template <int N>
  void begin_block(int64_t row, int64_t k) {
    const int64_t first = k / kColumns * kScales;
    const int64_t left = row_scales - first;
    const int64_t ahead = k + kAhead;
    const int64_t next = ahead < columns ? ahead : ahead + (N - 1) * columns;
    for (int n = 0; n < N; ++n) {
      const uint8_t* line = pairs + (row + n) * row_bytes + (next >> 1);
      __builtin_prefetch(line);
      __builtin_prefetch(line + 64);
      const uint8_t* codes = scales + (row + n) * row_scales + first;
      uint8_t last[kScales] = {};
      if (left < kScales) {
        std::memcpy(last, codes, static_cast<size_t>(left));
        codes = last;
      }
      for (int i = 0; i < kScales; i += S::kLanes) {
        S::store(scale[n] + i, S::mul(S::load_e4m3(codes + i), S::set(global)));
      }
    }
  }
  typename S::V load(int64_t row, int n, int64_t k) const {
    return S::mul(S::load_e2m1(pairs + (row + n) * row_bytes + (k >> 1)),
                  S::set(scale[n][(k >> 4) % kScales]));
  }
  // Never called: columns are a multiple of 16.
  typename S::V tail(int64_t, int, int64_t) const { return S::zero(); }
};

// Calls visit(rows) with the reader of the matrix's form, starting at row `first`.
template <typename S, typename Visit>
void with_rows(const WeightView& weight, int64_t first, const Visit& visit) {
  switch (weight.form) {
    case WeightForm::kF32:
      return visit(PlainRows<S, DType::kF32>(weight, first));
    case WeightForm::kBF16:
      return visit(PlainRows<S, DType::kBF16>(weight, first));
    case WeightForm::kF16:
      return visit(PlainRows<S, DType::kF16>(weight, first));
    case WeightForm::kFp8Block:
      return visit(Fp8Rows<S>(weight, first));
    case WeightForm::kNvfp4:
      return visit(Nvfp4Rows<S>(weight, first));
  }
}

}  // namespace baton::cpu
