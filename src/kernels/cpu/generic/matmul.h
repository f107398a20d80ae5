// Matrix products. The inner dimension lies in the lanes; every output has its own accumulator.
#pragma once

// Loops over a tile carry an unroll pragma: left to itself gcc keeps their accumulators in memory
// at both ends of the inner loop.

#include "kernels/cpu/generic/stored_rows.h"

namespace baton::cpu {

template <typename S, int M, int N>
[[gnu::always_inline]] inline void clear(typename S::V (&acc)[M][N]) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) acc[m][n] = S::zero();
  }
}

// The sums of a tile as they leave it. `bias` may be null.
template <typename S, int M, int N>
[[gnu::always_inline]] inline void store_sums(const typename S::V (&acc)[M][N],
                                              const float* bias,
                                              Rows<float> out) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const float sum = S::sum(acc[m][n]);
      out.row(m)[n] = bias == nullptr ? sum : sum + bias[n];
    }
  }
}

// M rows of x against N stored rows.
template <typename S, int M, int N, typename Stored>
inline void direct_tile(
    Stored& stored, int64_t row, Rows<const float> x, const float* bias, Rows<float> out) {
  using V = typename S::V;
  const int64_t k = stored.columns;
  V acc[M][N];
  clear<S>(acc);
  const int64_t whole = k / S::kLanes * S::kLanes;
  const auto step = [&](const V* xs, const V& w, int n) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) acc[m][n] = S::fma(xs[m], w, acc[m][n]);
  };
  // Past the end of these rows come the next N.
  const auto ahead_of = [&](int64_t i) {
    const int64_t ahead = i + Stored::kAhead;
    return ahead < k ? ahead : ahead + (N - 1) * k;
  };
  for (int64_t block = 0; block < whole; block += stored.block_columns()) {
    stored.template begin_block<N>(row, block);
    const int64_t end =
        block + stored.block_columns() < whole ? block + stored.block_columns() : whole;
    int64_t i = block;
    if constexpr (Stored::kWide > 1) {
      constexpr int64_t kStep = int64_t{Stored::kWide} * S::kLanes;
      for (; i + kStep <= end; i += kStep) {
        const int64_t next = ahead_of(i);
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) {
          stored.prefetch(row, n, next);
          V w[Stored::kWide];
          stored.load_wide(row, n, i, w);
#pragma GCC unroll 8
          for (int v = 0; v < Stored::kWide; ++v) {
#pragma GCC unroll 8
            for (int m = 0; m < M; ++m) {
              acc[m][n] = S::fma(S::load(x.row(m) + i + v * S::kLanes), w[v], acc[m][n]);
            }
          }
        }
      }
    }
    for (; i < end; i += S::kLanes) {
      const int64_t next = ahead_of(i);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) stored.prefetch(row, n, next);
      V xs[M];
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) xs[m] = S::load(x.row(m) + i);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) step(xs, stored.load(row, n, i), n);
    }
  }
  if (whole < k) {
    stored.template begin_block<N>(row, whole);
    V xs[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) xs[m] = S::load_first(x.row(m) + whole, k - whole);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) step(xs, stored.tail(row, n, whole), n);
  }
  store_sums<S>(acc, bias, out);
}

// All rows of x against N stored rows, a few at a time; the stored rows stay in cache.
template <typename S, int N, typename Stored>
inline void direct_rows(
    Stored& stored, int64_t row, Rows<const float> x, const float* bias, Rows<float> out) {
  int64_t i = 0;
  if constexpr (S::kTileRows == 4) {
    for (; i + 6 <= x.count; i += 6) {
      direct_tile<S, 6, N>(stored, row, x.from(i), bias, out.from(i));
    }
  }
  for (; i + 4 <= x.count; i += 4) {
    direct_tile<S, 4, N>(stored, row, x.from(i), bias, out.from(i));
  }
  const int64_t left = x.count - i;
  if (left == 3) direct_tile<S, 3, N>(stored, row, x.from(i), bias, out.from(i));
  if (left == 2) direct_tile<S, 2, N>(stored, row, x.from(i), bias, out.from(i));
  if (left == 1) direct_tile<S, 1, N>(stored, row, x.from(i), bias, out.from(i));
}

template <typename S>
void direct(const WeightView& weight,
            int64_t first,
            int64_t count,
            Rows<const float> x,
            const float* bias,
            Rows<float> out) {
  with_rows<S>(weight, first, [&](auto stored) {
    for (int64_t n = 0; n < count;) {
      const float* biases = bias == nullptr ? nullptr : bias + first + n;
      if (x.count == 1 && n + 8 <= count) {
        direct_tile<S, 1, 8>(stored, n, x, biases, out.columns(n));
        n += 8;
      } else if (n + 4 <= count) {
        direct_rows<S, 4>(stored, n, x, biases, out.columns(n));
        n += 4;
      } else {
        direct_rows<S, 1>(stored, n, x, biases, out.columns(n));
        n += 1;
      }
    }
  });
}

template <typename S>
void expand(const WeightView& weight, int64_t row, int64_t first, int64_t count, float* out) {
  with_rows<S>(weight, row, [&](auto stored) {
    const int64_t end = first + count;
    const int64_t width = stored.block_columns();
    int64_t i = first;
    while (i + S::kLanes <= end) {
      stored.template begin_block<1>(0, i);
      const int64_t block_end = (i / width + 1) * width < end ? (i / width + 1) * width : end;
      for (; i + S::kLanes <= block_end; i += S::kLanes, out += S::kLanes) {
        S::store(out, stored.load(0, 0, i));
      }
      if (i + S::kLanes > end) break;
    }
    if (i < end) {
      stored.template begin_block<1>(0, i);
      S::store(out, stored.tail(0, 0, i));
      out += S::kLanes;
      i += S::kLanes;
    }
    for (; i < first + padded(count); i += S::kLanes, out += S::kLanes) S::store(out, S::zero());
  });
}

template <typename S, int M, int N>
inline void dots_tile(Rows<const float> x, Rows<const float> y, int64_t k, Rows<float> out) {
  using V = typename S::V;
  V sums[M][N];
  clear<S>(sums);
  const auto step = [&](const V* xs, int64_t i) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const V w = S::load(y.row(n) + i);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) sums[m][n] = S::fma(xs[m], w, sums[m][n]);
    }
  };
  V xs[M];
  int64_t i = 0;
  for (; i + S::kLanes <= k; i += S::kLanes) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) xs[m] = S::load(x.row(m) + i);
    step(xs, i);
  }
  if (i < k) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) xs[m] = S::load_first(x.row(m) + i, k - i);
    step(xs, i);
  }
  store_sums<S>(sums, nullptr, out);
}

// The first M rows of x.
template <typename S, int M>
inline void dots_rows(Rows<const float> x, Rows<const float> y, int64_t k, Rows<float> out) {
  constexpr int kColumns = S::kTileRows == 4 ? 6 : 3;
  int64_t j = 0;
  for (; j + kColumns <= y.count; j += kColumns) {
    dots_tile<S, M, kColumns>(x, y.from(j), k, out.columns(j));
  }
  for (; j < y.count; ++j) dots_tile<S, M, 1>(x, y.from(j), k, out.columns(j));
}

template <typename S>
void dots(Rows<const float> x, Rows<const float> y, int64_t k, Rows<float> out) {
  int64_t i = 0;
  for (; i + S::kTileRows <= x.count; i += S::kTileRows) {
    dots_rows<S, S::kTileRows>(x.from(i), y, k, out.from(i));
  }
  if constexpr (S::kTileRows > 2) {
    for (; i + 2 <= x.count; i += 2) dots_rows<S, 2>(x.from(i), y, k, out.from(i));
  }
  for (; i < x.count; ++i) dots_rows<S, 1>(x.from(i), y, k, out.from(i));
}

}  // namespace baton::cpu
