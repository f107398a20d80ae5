// Indexer scores of one token over one block of 64 keys. The keys lie in the lanes, so relu and
// the weighted sum over heads need no horizontal step.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/microkernels.h"

namespace baton::cpu {

template <typename S, int H, int C>
inline void index_heads(Rows<const float> q,
                        const float* head_weights,
                        const float* keys,
                        int64_t dim,
                        typename S::V* scores) {
  using V = typename S::V;
  V acc[H][C];
#pragma GCC unroll 8
  for (int h = 0; h < H; ++h) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[h][c] = S::zero();
  }
  for (int64_t i = 0; i < dim; ++i) {
    V key[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) key[c] = S::load(keys + i * kBlockTokens + c * S::kLanes);
#pragma GCC unroll 8
    for (int h = 0; h < H; ++h) {
      const V value = S::set(q.row(h)[i]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[h][c] = S::fma(value, key[c], acc[h][c]);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < H; ++h) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      // max(0, x) as an instruction gives x where x is NaN.
      scores[c] = S::fma(S::set(head_weights[h]), S::max(S::zero(), acc[h][c]), scores[c]);
    }
  }
}

template <typename S>
void index_tile(Rows<const float> q,
                const float* head_weights,
                const float* keys,
                int64_t dim,
                float scale,
                float* out) {
  constexpr int kVectors = S::kLanes == 16 ? 4 : 2;
  constexpr int kColumns = kVectors * S::kLanes;
  for (int column = 0; column < kBlockTokens; column += kColumns) {
    typename S::V scores[kVectors];
    for (auto& score : scores) score = S::zero();
    int64_t h = 0;
    for (; h + S::kIndexHeads <= q.count; h += S::kIndexHeads) {
      index_heads<S, S::kIndexHeads, kVectors>(
          q.from(h), head_weights + h, keys + column, dim, scores);
    }
    for (; h + 2 <= q.count; h += 2) {
      index_heads<S, 2, kVectors>(q.from(h), head_weights + h, keys + column, dim, scores);
    }
    for (; h < q.count; ++h) {
      index_heads<S, 1, kVectors>(q.from(h), head_weights + h, keys + column, dim, scores);
    }
    for (int c = 0; c < kVectors; ++c) {
      S::store(out + column + c * S::kLanes, S::mul(scores[c], S::set(scale)));
    }
  }
}

// 8 x 8 floats, rows `stride` apart, into columns 64 apart.
template <typename S>
inline void transpose_8x8(const float* from, int64_t stride, float* to) {
  __m256 r[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * stride);
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * kBlockTokens, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * kBlockTokens, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

template <typename S>
void transpose_64(const float* from, int64_t stride, int64_t width, float* to) {
  for (int64_t i = 0; i < kBlockTokens; i += 8) {
    for (int64_t j = 0; j < width; j += 8) {
      transpose_8x8<S>(from + i * stride + j, stride, to + j * kBlockTokens + i);
    }
  }
}

}  // namespace baton::cpu
