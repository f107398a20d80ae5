// The leaf loops that differ per instruction set. Everything above them (threads, tiles,
// caches, batches) is written once and compiled for the base processor; these run inside one
// thread, allocate nothing and use no standard containers, so that no code of a newer
// instruction set can leak into the rest of the binary.
//
// Each output element is one chain: a vector accumulator over the inner dimension in ascending
// order, then one fixed horizontal sum. Its bits depend on neither the tile nor the batch.
#pragma once

#include "kernels/kernels.h"

namespace baton::cpu {

// Floats that the tiles may read and write past a row's end are padded to this.
constexpr int64_t kPad = 16;
constexpr int64_t padded(int64_t n) {
  return (n + kPad - 1) / kPad * kPad;
}

// `count` rows of floats, `stride` apart. Always inlined: a copy of their own would be shared by
// files with different compiler flags.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;
  int64_t count = 0;

  [[gnu::always_inline]] T* row(int64_t i) const { return data + i * stride; }
  [[gnu::always_inline]] Rows part(int64_t first, int64_t rows) const {
    return {row(first), stride, rows};
  }
  [[gnu::always_inline]] Rows from(int64_t first) const { return part(first, count - first); }
  // The same rows without their first columns.
  [[gnu::always_inline]] Rows columns(int64_t first) const { return {data + first, stride, count}; }
  [[gnu::always_inline]] operator Rows<const T>() const { return {data, stride, count}; }
};

struct Microkernels {
  // out[i, n] = x[i] . weight[first + n] (+ bias[first + n]) for n < count, at least one x, read
  // straight from the stored form. fp8 blocks must be a multiple of kPad columns wide.
  void (*direct)(const WeightView& weight,
                 int64_t first,
                 int64_t count,
                 Rows<const float> x,
                 const float* bias,
                 Rows<float> out);

  // Columns [first, first + count) of one row as f32, zeros up to padded(count). first is a
  // multiple of kPad; fp8 as above.
  void (*expand)(const WeightView& weight, int64_t row, int64_t first, int64_t count, float* out);

  // out[i, j] = x[i] . y[j] over k columns, all f32, rows of y padded with zeros to padded(k).
  void (*dots)(Rows<const float> x, Rows<const float> y, int64_t k, Rows<float> out);

  // One tile of online softmax: scores[n] *= scale, then exp(scores - new maximum). Updates
  // maximum and total and returns what earlier sums must be multiplied by. Zeros up to
  // padded(n).
  float (*softmax_tile)(float* scores, int64_t n, float scale, float* maximum, float* total);

  // sums[i] = sums[i] * factors[i] + sum_j weights[i, j] * values[j]; width is a multiple of
  // kPad.
  void (*accumulate)(Rows<float> sums,
                     const float* factors,
                     Rows<const float> weights,
                     Rows<const float> values,
                     int64_t width);

  // out[0..64) = scale * sum_h head_weights[h] * relu(q[h] . key), keys as [dim, 64].
  void (*index_tile)(Rows<const float> q,
                     const float* head_weights,
                     const float* keys,
                     int64_t dim,
                     float scale,
                     float* out);
  // [64, stride] -> [width, 64]; width is a multiple of 8
  void (*transpose_64)(const float* from, int64_t stride, int64_t width, float* to);

  // f32, bf16, f16 or e4m3 values as f32; exact, NaN included.
  void (*widen)(const void* from, DType dtype, int64_t count, float scale, float* out);
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float epsilon, float* out);
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
};

const Microkernels& avx2_microkernels();
const Microkernels& avx512_microkernels();
const Microkernels& avx512_vbmi_microkernels();

}  // namespace baton::cpu
