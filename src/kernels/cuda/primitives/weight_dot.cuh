// Dot products of one stored weight row with a few activation rows, by one warp: the inner
// loop of every matmul. Weights are expanded in registers, eight columns per lane and turn.
// The order of a sum depends on the number of columns alone, never on how many activation
// rows share the weights.
#pragma once

#include <cstdint>

#include "base/numeric.h"
#include "kernels/cuda/primitives/reduce.cuh"
#include "kernels/kernels.h"

namespace baton::cuda {

constexpr int kLaneColumns = 8;  // 16 bytes of bf16
constexpr int kWarpColumns = kWarp * kLaneColumns;

__device__ inline bool aligned(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

template <WeightForm kForm>
__device__ float weight_value(const WeightView& w, int64_t row, int64_t column) {
  const int64_t at = row * w.columns + column;
  if constexpr (kForm == WeightForm::kF32) {
    return static_cast<const float*>(w.data)[at];
  } else if constexpr (kForm == WeightForm::kBF16) {
    return bf16_to_float(static_cast<const uint16_t*>(w.data)[at]);
  } else if constexpr (kForm == WeightForm::kF16) {
    return f16_to_float(static_cast<const uint16_t*>(w.data)[at]);
  } else if constexpr (kForm == WeightForm::kFp8Block) {
    const int64_t across = (w.columns + w.block_columns - 1) / w.block_columns;
    const float scale =
        static_cast<const float*>(w.scales)[row / w.block_rows * across + column / w.block_columns];
    return e4m3_to_float(static_cast<const uint8_t*>(w.data)[at]) * scale;
  } else {
    const uint32_t pair = static_cast<const uint8_t*>(w.data)[at / 2];
    const float scale = e4m3_to_float(static_cast<const uint8_t*>(w.scales)[at / 16]);
    return e2m1_to_float((column & 1) != 0 ? pair >> 4 : pair & 15U) * (scale * w.global_scale);
  }
}

// Values [column, column + 8) of a row; beyond the last column: 0.
template <WeightForm kForm>
__device__ void weight_values(const WeightView& w,
                              int64_t row,
                              int64_t column,
                              float (&values)[kLaneColumns]) {
  if constexpr (kForm == WeightForm::kBF16 || kForm == WeightForm::kF16) {
    const uint16_t* from = static_cast<const uint16_t*>(w.data) + row * w.columns + column;
    if (column + kLaneColumns <= w.columns && aligned(from, 16)) {
      const uint4 raw = *reinterpret_cast<const uint4*>(from);
      const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const uint16_t bits = static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)));
        values[i] = kForm == WeightForm::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i) {
    values[i] = column + i < w.columns ? weight_value<kForm>(w, row, column + i) : 0.0F;
  }
}

// x[column .. column + 8); beyond `count`: 0.
__device__ inline void activation_values(const float* x,
                                         int64_t column,
                                         int64_t count,
                                         float (&values)[kLaneColumns]) {
  const float* from = x + column;
  if (column + kLaneColumns <= count && aligned(from, 16)) {
    const float4 low = reinterpret_cast<const float4*>(from)[0];
    const float4 high = reinterpret_cast<const float4*>(from)[1];
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i) values[i] = column + i < count ? from[i] : 0.0F;
}

// sums[i] = w[row] . x[i] for i < count, in every lane; other sums are 0. The whole warp calls
// it with the same arguments.
template <WeightForm kForm, int kTile>
__device__ void warp_dot(const WeightView& w,
                         int64_t row,
                         const float* const (&x)[kTile],
                         int count,
                         float (&sums)[kTile]) {
#pragma unroll
  for (int i = 0; i < kTile; ++i) sums[i] = 0.0F;
  const int64_t lane = threadIdx.x % kWarp;
  for (int64_t column = lane * kLaneColumns; column < w.columns; column += kWarpColumns) {
    float weights[kLaneColumns];
    weight_values<kForm>(w, row, column, weights);
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
      if (i >= count) break;
      float values[kLaneColumns];
      activation_values(x[i], column, w.columns, values);
#pragma unroll
      for (int j = 0; j < kLaneColumns; ++j) sums[i] = fmaf(weights[j], values[j], sums[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    if (i < count) sums[i] = warp_sum(sums[i]);
  }
}

// The same with the form known at run time only: expert matrices are read from a table in
// device memory.
template <int kTile>
__device__ void warp_dot_any(const WeightView& w,
                             int64_t row,
                             const float* const (&x)[kTile],
                             int count,
                             float (&sums)[kTile]) {
  switch (w.form) {
    case WeightForm::kF32:
      return warp_dot<WeightForm::kF32, kTile>(w, row, x, count, sums);
    case WeightForm::kBF16:
      return warp_dot<WeightForm::kBF16, kTile>(w, row, x, count, sums);
    case WeightForm::kF16:
      return warp_dot<WeightForm::kF16, kTile>(w, row, x, count, sums);
    case WeightForm::kFp8Block:
      return warp_dot<WeightForm::kFp8Block, kTile>(w, row, x, count, sums);
    case WeightForm::kNvfp4:
      return warp_dot<WeightForm::kNvfp4, kTile>(w, row, x, count, sums);
  }
}

}  // namespace baton::cuda
