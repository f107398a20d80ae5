// Attention over tiles of cached rows, shared by MLA and GQA: scores, online softmax, weighted
// sum. Tiles are cut by place in a token's own list of rows, so a token's bits do not depend on
// the tokens beside it.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.h"

namespace baton::cpu {

constexpr int64_t kTileKeys = 32;  // 32 rows of 576 floats: 72 KiB, in L2 beside the queries

// Sizes of one item: `tokens` tokens with `heads` query heads each.
struct AttentionShape {
  int64_t tokens = 1;
  int64_t heads = 1;
  int64_t key_width = 0;  // inner dimension of the scores
  int64_t value_width = 0;
  bool shared = false;  // values are the first columns of the keys (MLA)

  int64_t key_stride() const { return padded(key_width); }
  int64_t value_stride() const { return shared ? key_stride() : padded(value_width); }
  int64_t rows() const { return tokens * heads; }
};

// Where the parts of an item lie in a worker's scratch.
struct AttentionTiles {
  float* queries;  // [rows, key_stride]
  float* keys;     // [kTileKeys, key_stride], zeros past key_width
  float* values;   // [kTileKeys, value_stride]
  float* scores;   // [rows, kTileKeys]
  float* sums;     // [rows, padded(value_width)]
  float* maximum;  // [rows]
  float* total;    // [rows]
  float* factors;  // [rows]

  static int64_t floats(const AttentionShape& s) {
    return s.rows() * (s.key_stride() + kTileKeys + padded(s.value_width) + 3 * kPad) +
           kTileKeys * (s.key_stride() + s.value_stride());
  }
  AttentionTiles(const AttentionShape& s, float* scratch) {
    queries = scratch;
    keys = queries + s.rows() * s.key_stride();
    values = s.shared ? keys : keys + kTileKeys * s.key_stride();
    scores = keys + kTileKeys * (s.key_stride() + s.value_stride());
    sums = scores + s.rows() * kTileKeys;
    maximum = sums + s.rows() * padded(s.value_width);
    total = maximum + s.rows();
    factors = total + s.rows();
  }
  // What dots() and accumulate() read past the end of a row must be finite, of a key zero.
  void clear_padding(const AttentionShape& s) const {
    for (int64_t j = 0; j < kTileKeys; ++j) {
      std::fill(keys + j * s.key_stride() + s.key_width, keys + (j + 1) * s.key_stride(), 0.0F);
      if (s.shared) continue;
      std::fill(
          values + j * s.value_stride() + s.value_width, values + (j + 1) * s.value_stride(), 0.0F);
    }
  }
};

// counts: [tokens], rows each token attends to. fetch(first, n) fills keys and values with rows
// [first, first + n) of the list. Leaves sums and totals behind.
template <typename Fetch>
void attend(const Microkernels& kernels,
            const AttentionShape& shape,
            const AttentionTiles& tiles,
            const int64_t* counts,
            float scale,
            const Fetch& fetch) {
  const int64_t sums_stride = padded(shape.value_width);
  std::fill_n(tiles.maximum, shape.rows(), -INFINITY);
  std::fill_n(tiles.total, shape.rows(), 0.0F);
  std::fill_n(tiles.sums, shape.rows() * sums_stride, 0.0F);
  const int64_t longest = *std::max_element(counts, counts + shape.tokens);
  for (int64_t first = 0; first < longest; first += kTileKeys) {
    const int64_t n = std::min(kTileKeys, longest - first);
    fetch(first, n);
    kernels.dots(tiles.queries,
                 shape.key_stride(),
                 shape.rows(),
                 tiles.keys,
                 shape.key_stride(),
                 n,
                 shape.key_width,
                 tiles.scores,
                 kTileKeys);
    for (int64_t t = 0; t < shape.tokens; ++t) {
      const int64_t own = std::min(n, counts[t] - first);
      if (own <= 0) continue;
      const int64_t row = t * shape.heads;
      for (int64_t r = row; r < row + shape.heads; ++r) {
        tiles.factors[r] = kernels.softmax_tile(
            tiles.scores + r * kTileKeys, own, scale, tiles.maximum + r, tiles.total + r);
      }
      kernels.accumulate(tiles.sums + row * sums_stride,
                         sums_stride,
                         shape.heads,
                         tiles.factors + row,
                         tiles.scores + row * kTileKeys,
                         kTileKeys,
                         tiles.values,
                         shape.value_stride(),
                         own,
                         sums_stride);
    }
  }
}

// Row r of the result: sums over total; zeros when it attended to nothing.
inline void write_row(const AttentionShape& shape,
                      const AttentionTiles& tiles,
                      int64_t r,
                      float* out) {
  const float* sums = tiles.sums + r * padded(shape.value_width);
  const float inverse = tiles.total[r] == 0.0F ? 0.0F : 1.0F / tiles.total[r];
  for (int64_t i = 0; i < shape.value_width; ++i) out[i] = sums[i] * inverse;
}

}  // namespace baton::cpu
