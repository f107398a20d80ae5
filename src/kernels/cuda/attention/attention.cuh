// Softmax attention of a few query heads of one token over the KV rows it sees: the one loop
// of mla_attention and gqa_attention. Rows are expanded to f32 in shared memory, kTileRows at
// a time, and folded into a running softmax in ascending order of position. Tiles start at the
// first visible row whatever the batch, so the bits of a token depend on its rows alone.
//
// `Source` says what a row means:
//   int key_width(), value_width()
//   float query(token, head, i)                key_width values per query head
//   const uint8_t* row(block bytes, slot)      a token's row inside its block's layer part
//   float key(row, i), float value(row, i)     of the kv head this block works on
//   static constexpr bool kValuesInKeys        values are the first columns of the key tile
#pragma once

#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/primitives/reduce.cuh"

namespace baton::cuda {

constexpr int kTileRows = 16;
constexpr int kTileHeads = 4;
// Output columns that a thread accumulates per head: value_width <= kThreads * this.
constexpr int kThreadColumns = 4;

// Which rows a token sees: all up to its position, or its selected ones.
struct Visible {
  Rows<const int32_t> selection;  // data null: all
  int64_t top_k;

  // All threads of a block call it.
  __device__ int32_t count(int64_t token, int32_t position) const {
    if (selection.data == nullptr) return position + 1;
    int32_t chosen = 0;
    const int32_t* row = selection.row(token);
    for (int64_t i = threadIdx.x; i < top_k; i += kThreads) chosen += row[i] >= 0 ? 1 : 0;
    return static_cast<int32_t>(block_sum(static_cast<float>(chosen)));  // exact below 2^24
  }
  __device__ int32_t position(int64_t token, int32_t i) const {
    return selection.data == nullptr ? i : selection.row(token)[i];
  }
};

template <typename Source>
size_t attention_shared_bytes(const Source& source) {
  const int64_t tile = source.key_width() + (Source::kValuesInKeys ? 0 : source.value_width());
  return static_cast<size_t>(kTileRows * tile + kTileHeads * source.key_width()) * sizeof(float);
}

// blockIdx.x = token; query heads [first_head, first_head + heads), heads <= kTileHeads.
template <typename Source>
__device__ void attend(const Source& source,
                       const Batch& batch,
                       const Visible& visible,
                       const uint8_t* blocks,
                       int64_t block_stride,
                       int64_t offset,
                       int32_t first_head,
                       int32_t heads,
                       float scale,
                       Heads<float> out) {
  __shared__ float weight[kTileHeads][kTileRows];  // scores, then exp(score - maximum)
  __shared__ float rescale[kTileHeads];
  __shared__ float denominator[kTileHeads];
  __shared__ const uint8_t* row_of[kTileRows];
  const int32_t key_width = source.key_width();
  const int32_t value_width = source.value_width();
  float* query = dynamic_shared<float>();        // [kTileHeads, key_width]
  float* keys = query + kTileHeads * key_width;  // [kTileRows, key_width]
  float* values = Source::kValuesInKeys ? keys : keys + kTileRows * key_width;
  const int32_t value_stride = Source::kValuesInKeys ? key_width : value_width;

  const int64_t token = blockIdx.x;
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  const int32_t warp = thread / kWarp;
  const int32_t lane = thread % kWarp;
  const int32_t position = batch.positions[token];
  const int32_t count = visible.count(token, position);

  for (int32_t i = thread; i < heads * key_width; i += kThreads) {
    query[i] = source.query(token, first_head + i / key_width, i % key_width);
  }
  float sums[kTileHeads][kThreadColumns] = {};
  float maximum = -INFINITY;  // of head `warp`, in the warps that own a head
  float total = 0.0F;

  for (int32_t first = 0; first < count; first += kTileRows) {
    const int32_t rows = count - first < kTileRows ? count - first : kTileRows;
    __syncthreads();  // the last tile's readers are done
    if (thread < rows) {
      const int32_t p = visible.position(token, first + thread);
      const uint8_t* layer = blocks + batch.block_of(token, p) * block_stride + offset;
      row_of[thread] = source.row(layer, p % kBlockTokens);
    }
    __syncthreads();
    for (int32_t i = thread; i < rows * key_width; i += kThreads) {
      keys[i] = source.key(row_of[i / key_width], i % key_width);
    }
    if constexpr (!Source::kValuesInKeys) {
      for (int32_t i = thread; i < rows * value_width; i += kThreads) {
        values[i] = source.value(row_of[i / value_width], i % value_width);
      }
    }
    __syncthreads();
    for (int32_t pair = warp; pair < heads * rows; pair += kWarps) {
      const int32_t head = pair / rows;
      const int32_t row = pair % rows;
      float dot = 0.0F;
      for (int32_t i = lane; i < key_width; i += kWarp) {
        dot = fmaf(query[head * key_width + i], keys[row * key_width + i], dot);
      }
      dot = warp_sum(dot);
      if (lane == 0) weight[head][row] = dot * scale;
    }
    __syncthreads();
    if (warp < heads) {
      const float score = lane < rows ? weight[warp][lane] : -INFINITY;
      const float higher = fmaxf(maximum, warp_max(score));
      const float factor = expf(maximum - higher);  // 0 in the first tile
      const float exponential = lane < rows ? expf(score - higher) : 0.0F;
      total = fmaf(total, factor, warp_sum(exponential));
      maximum = higher;
      if (lane < kTileRows) weight[warp][lane] = exponential;
      if (lane == 0) rescale[warp] = factor;
    }
    __syncthreads();
#pragma unroll
    for (int32_t c = 0; c < kThreadColumns; ++c) {
      const int32_t column = thread + c * kThreads;
      if (column >= value_width) break;
#pragma unroll
      for (int32_t head = 0; head < kTileHeads; ++head) {
        if (head < heads) sums[head][c] *= rescale[head];
      }
      for (int32_t row = 0; row < rows; ++row) {
        const float value = values[row * value_stride + column];
#pragma unroll
        for (int32_t head = 0; head < kTileHeads; ++head) {
          if (head < heads) sums[head][c] = fmaf(weight[head][row], value, sums[head][c]);
        }
      }
    }
  }
  if (warp < heads && lane == 0) denominator[warp] = total;
  __syncthreads();
#pragma unroll
  for (int32_t c = 0; c < kThreadColumns; ++c) {
    const int32_t column = thread + c * kThreads;
    if (column >= value_width) break;
#pragma unroll
    for (int32_t head = 0; head < kTileHeads; ++head) {
      if (head >= heads) break;
      // A token that sees nothing (padding) gets zeros.
      out.row(token, first_head + head)[column] =
          count > 0 ? sums[head][c] / denominator[head] : 0.0F;
    }
  }
}

}  // namespace baton::cuda
