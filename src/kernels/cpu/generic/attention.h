// Softmax over a tile and the weighted sum of its values.
#pragma once

#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/microkernels.h"

namespace baton::cpu {

template <typename S>
float softmax_tile(float* scores, int64_t n, float scale, float* maximum, float* total) {
  using V = typename S::V;
  const V minus_infinity = S::set(-__builtin_inff());
  // Lanes past n hold -inf from here on, and exp makes them next to nothing; they are zeroed.
  V best = minus_infinity;
  int64_t i = 0;
  for (; i + S::kLanes <= n; i += S::kLanes) {
    const V s = S::mul(S::load(scores + i), S::set(scale));
    S::store(scores + i, s);
    best = S::max(best, s);
  }
  float largest = S::largest(best);
  for (int64_t j = i; j < n; ++j) {
    scores[j] *= scale;
    largest = scores[j] > largest ? scores[j] : largest;
  }
  const float previous = *maximum;
  const float now = largest > previous ? largest : previous;
  V sum = S::zero();
  for (i = 0; i < n; i += S::kLanes) {
    const int64_t left = n - i;
    const bool whole = left >= S::kLanes;
    const V s = whole ? S::load(scores + i) : S::load_first(scores + i, left);
    V p = exponential<S>(S::sub(s, S::set(now)));
    S::store(scores + i, p);
    if (!whole) {
      for (int64_t j = n; j < i + S::kLanes; ++j) scores[j] = 0.0F;
      p = S::load(scores + i);
    }
    sum = S::add(sum, p);
  }
  for (; i < padded(n); ++i) scores[i] = 0.0F;
  const float factor = previous == -__builtin_inff() ? 0.0F : __builtin_expf(previous - now);
  *maximum = now;
  *total = *total * factor + S::sum(sum);
  return factor;
}

template <typename S, int M, int C>
inline void accumulate_tile(Rows<float> sums,
                            const float* factors,
                            Rows<const float> weights,
                            Rows<const float> values) {
  using V = typename S::V;
  V acc[M][C];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      acc[m][c] = S::mul(S::load(sums.row(m) + c * S::kLanes), S::set(factors[m]));
    }
  }
  for (int64_t j = 0; j < values.count; ++j) {
    V value[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) value[c] = S::load(values.row(j) + c * S::kLanes);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const V weight = S::set(weights.row(m)[j]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[m][c] = S::fma(weight, value[c], acc[m][c]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) S::store(sums.row(m) + c * S::kLanes, acc[m][c]);
  }
}

// The first M rows of sums.
template <typename S, int M>
inline void accumulate_rows(Rows<float> sums,
                            const float* factors,
                            Rows<const float> weights,
                            Rows<const float> values,
                            int64_t width) {
  constexpr int64_t kStep = int64_t{S::kSumVectors} * S::kLanes;
  int64_t c = 0;
  for (; c + kStep <= width; c += kStep) {
    accumulate_tile<S, M, S::kSumVectors>(sums.columns(c), factors, weights, values.columns(c));
  }
  for (; c < width; c += S::kLanes) {
    accumulate_tile<S, M, 1>(sums.columns(c), factors, weights, values.columns(c));
  }
}

template <typename S>
void accumulate(Rows<float> sums,
                const float* factors,
                Rows<const float> weights,
                Rows<const float> values,
                int64_t width) {
  int64_t i = 0;
  for (; i + 4 <= sums.count; i += 4) {
    accumulate_rows<S, 4>(sums.from(i), factors + i, weights.from(i), values, width);
  }
  for (; i + 2 <= sums.count; i += 2) {
    accumulate_rows<S, 2>(sums.from(i), factors + i, weights.from(i), values, width);
  }
  for (; i < sums.count; ++i) {
    accumulate_rows<S, 1>(sums.from(i), factors + i, weights.from(i), values, width);
  }
}

}  // namespace baton::cpu
