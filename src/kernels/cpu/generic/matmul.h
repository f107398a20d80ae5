// Matrix products. The inner dimension lies in the lanes; every output has its own accumulator.
#pragma once

// Loops over a tile carry an unroll pragma: left to itself gcc keeps their accumulators in memory
// at both ends of the inner loop.

#include "kernels/cpu/generic/stored_rows.h"

namespace baton::cpu {

// M rows of x against N stored rows.
template <typename S, int M, int N, typename Rows>
inline void direct_tile(Rows& rows,
                        int64_t row,
                        const float* x,
                        int64_t x_stride,
                        int64_t k,
                        const float* bias,
                        float* out,
                        int64_t out_stride) {
  using V = typename S::V;
  V acc[M][N];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) acc[m][n] = S::zero();
  }
  const int64_t whole = k / S::kLanes * S::kLanes;
  const auto step = [&](const V* xs, const V& w, int n) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) acc[m][n] = S::fma(xs[m], w, acc[m][n]);
  };
  for (int64_t block = 0; block < whole; block += rows.block_columns()) {
    rows.template begin_block<N>(row, block);
    const int64_t end = block + rows.block_columns() < whole ? block + rows.block_columns() : whole;
    int64_t i = block;
    if constexpr (Rows::kWide > 1) {
      constexpr int64_t kStep = int64_t{Rows::kWide} * S::kLanes;
      for (; i + kStep <= end; i += kStep) {
        const int64_t ahead = i + Rows::kAhead;
        const int64_t next = ahead < k ? ahead : ahead + (N - 1) * k;
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) {
          rows.prefetch(row, n, next);
          V w[Rows::kWide];
          rows.load_wide(row, n, i, w);
#pragma GCC unroll 8
          for (int v = 0; v < Rows::kWide; ++v) {
#pragma GCC unroll 8
            for (int m = 0; m < M; ++m) {
              acc[m][n] = S::fma(S::load(x + m * x_stride + i + v * S::kLanes), w[v], acc[m][n]);
            }
          }
        }
      }
    }
    for (; i < end; i += S::kLanes) {
      // Past the end of these rows come the next N.
      const int64_t ahead = i + Rows::kAhead;
      const int64_t next = ahead < k ? ahead : ahead + (N - 1) * k;
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) rows.prefetch(row, n, next);
      V xs[M];
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) xs[m] = S::load(x + m * x_stride + i);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) step(xs, rows.load(row, n, i), n);
    }
  }
  if (whole < k) {
    rows.template begin_block<N>(row, whole);
    V xs[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) xs[m] = S::load_first(x + m * x_stride + whole, k - whole);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) step(xs, rows.tail(row, n, whole), n);
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const float sum = S::sum(acc[m][n]);
      out[m * out_stride + n] = bias == nullptr ? sum : sum + bias[n];
    }
  }
}

// All m rows of x against N stored rows, a few at a time; the stored rows stay in cache.
template <typename S, int N, typename Rows>
inline void direct_rows(Rows& rows,
                        int64_t row,
                        const float* x,
                        int64_t x_stride,
                        int64_t m,
                        int64_t k,
                        const float* bias,
                        float* out,
                        int64_t out_stride) {
  int64_t i = 0;
  if constexpr (S::kTileRows == 4) {
    for (; i + 6 <= m; i += 6) {
      direct_tile<S, 6, N>(
          rows, row, x + i * x_stride, x_stride, k, bias, out + i * out_stride, out_stride);
    }
  }
  for (; i + 4 <= m; i += 4) {
    direct_tile<S, 4, N>(
        rows, row, x + i * x_stride, x_stride, k, bias, out + i * out_stride, out_stride);
  }
  const float* xs = x + i * x_stride;
  float* outs = out + i * out_stride;
  if (m - i == 3) direct_tile<S, 3, N>(rows, row, xs, x_stride, k, bias, outs, out_stride);
  if (m - i == 2) direct_tile<S, 2, N>(rows, row, xs, x_stride, k, bias, outs, out_stride);
  if (m - i == 1) direct_tile<S, 1, N>(rows, row, xs, x_stride, k, bias, outs, out_stride);
}

template <typename S>
void direct(const WeightView& weight,
            int64_t first,
            int64_t count,
            const float* x,
            int64_t x_stride,
            int64_t m,
            const float* bias,
            float* out,
            int64_t out_stride) {
  with_rows<S>(weight, first, [&](auto rows) {
    const int64_t k = weight.columns;
    for (int64_t n = 0; n < count;) {
      const float* biases = bias == nullptr ? nullptr : bias + first + n;
      if (m == 1 && n + 8 <= count) {
        direct_tile<S, 1, 8>(rows, n, x, x_stride, k, biases, out + n, out_stride);
        n += 8;
      } else if (n + 4 <= count) {
        direct_rows<S, 4>(rows, n, x, x_stride, m, k, biases, out + n, out_stride);
        n += 4;
      } else {
        direct_rows<S, 1>(rows, n, x, x_stride, m, k, biases, out + n, out_stride);
        n += 1;
      }
    }
  });
}

template <typename S>
void expand(const WeightView& weight, int64_t row, int64_t first, int64_t count, float* out) {
  with_rows<S>(weight, row, [&](auto rows) {
    const int64_t end = first + count;
    const int64_t width = rows.block_columns();
    int64_t i = first;
    while (i + S::kLanes <= end) {
      rows.template begin_block<1>(0, i);
      const int64_t block_end = (i / width + 1) * width < end ? (i / width + 1) * width : end;
      for (; i + S::kLanes <= block_end; i += S::kLanes, out += S::kLanes) {
        S::store(out, rows.load(0, 0, i));
      }
      if (i + S::kLanes > end) break;
    }
    if (i < end) {
      rows.template begin_block<1>(0, i);
      S::store(out, rows.tail(0, 0, i));
      out += S::kLanes;
      i += S::kLanes;
    }
    for (; i < first + padded(count); i += S::kLanes, out += S::kLanes) S::store(out, S::zero());
  });
}

template <typename S, int M, int N>
inline void dots_tile(const float* x,
                      int64_t x_stride,
                      const float* y,
                      int64_t y_stride,
                      int64_t k,
                      float* out,
                      int64_t out_stride) {
  using V = typename S::V;
  V sums[M][N];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sums[m][n] = S::zero();
  }
  const auto step = [&](const V* xs, int64_t i) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const V w = S::load(y + n * y_stride + i);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) sums[m][n] = S::fma(xs[m], w, sums[m][n]);
    }
  };
  V xs[M];
  int64_t i = 0;
  for (; i + S::kLanes <= k; i += S::kLanes) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) xs[m] = S::load(x + m * x_stride + i);
    step(xs, i);
  }
  if (i < k) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) xs[m] = S::load_first(x + m * x_stride + i, k - i);
    step(xs, i);
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) out[m * out_stride + n] = S::sum(sums[m][n]);
  }
}

template <typename S, int M>
inline void dots_rows(const float* x,
                      int64_t x_stride,
                      const float* y,
                      int64_t y_stride,
                      int64_t n,
                      int64_t k,
                      float* out,
                      int64_t out_stride) {
  constexpr int kColumns = S::kTileRows == 4 ? 6 : 3;
  int64_t j = 0;
  for (; j + kColumns <= n; j += kColumns) {
    dots_tile<S, M, kColumns>(x, x_stride, y + j * y_stride, y_stride, k, out + j, out_stride);
  }
  for (; j < n; ++j) {
    dots_tile<S, M, 1>(x, x_stride, y + j * y_stride, y_stride, k, out + j, out_stride);
  }
}

template <typename S>
void dots(const float* x,
          int64_t x_stride,
          int64_t m,
          const float* y,
          int64_t y_stride,
          int64_t n,
          int64_t k,
          float* out,
          int64_t out_stride) {
  int64_t i = 0;
  for (; i + S::kTileRows <= m; i += S::kTileRows) {
    dots_rows<S, S::kTileRows>(
        x + i * x_stride, x_stride, y, y_stride, n, k, out + i * out_stride, out_stride);
  }
  if constexpr (S::kTileRows > 2) {
    for (; i + 2 <= m; i += 2) {
      dots_rows<S, 2>(
          x + i * x_stride, x_stride, y, y_stride, n, k, out + i * out_stride, out_stride);
    }
  }
  for (; i < m; ++i) {
    dots_rows<S, 1>(
        x + i * x_stride, x_stride, y, y_stride, n, k, out + i * out_stride, out_stride);
  }
}

}  // namespace baton::cpu
