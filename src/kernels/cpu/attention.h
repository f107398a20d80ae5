// Attention over tiles of cached rows, shared by MLA and GQA: scores, online softmax, weighted
// sum. Tiles are cut by place in a token's own list of rows, so a token's bits do not depend on
// the tokens beside it.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

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
  Rows<float> queries;  // [rows, key_width]
  Rows<float> keys;     // [kTileKeys, key_width], zeros past it
  Rows<float> values;   // [kTileKeys, value_width]
  Rows<float> scores;   // [rows, kTileKeys]
  Rows<float> sums;     // [rows, value_width]
  float* maximum;       // [rows]
  float* total;         // [rows]
  float* factors;       // [rows]

  static int64_t floats(const AttentionShape& s) {
    return s.rows() * (s.key_stride() + kTileKeys + padded(s.value_width) + 3 * kPad) +
           kTileKeys * (s.key_stride() + s.value_stride());
  }
  AttentionTiles(const AttentionShape& s, float* scratch)
      : queries{scratch, s.key_stride(), s.rows()},
        keys{queries.row(s.rows()), s.key_stride(), kTileKeys},
        values{s.shared ? keys.data : keys.row(kTileKeys), s.value_stride(), kTileKeys},
        scores{keys.row(kTileKeys) + kTileKeys * s.value_stride(), kTileKeys, s.rows()},
        sums{scores.row(s.rows()), padded(s.value_width), s.rows()},
        maximum(sums.row(s.rows())),
        total(maximum + s.rows()),
        factors(total + s.rows()) {}
  // What dots() and accumulate() read past the end of a row must be finite, of a key zero.
  void clear_padding(const AttentionShape& s) const {
    for (int64_t j = 0; j < kTileKeys; ++j) {
      std::fill(keys.row(j) + s.key_width, keys.row(j + 1), 0.0F);
      if (!s.shared) std::fill(values.row(j) + s.value_width, values.row(j + 1), 0.0F);
    }
  }
};

// counts: [tokens], rows each token attends to. fetch(first, n) fills keys and values with rows
// [first, first + n) of the list. Leaves sums and totals behind.
template <typename Fetch>
void attend(const Microkernels& kernels,
            const AttentionShape& shape,
            const AttentionTiles& tiles,
            std::span<const int64_t> counts,
            float scale,
            const Fetch& fetch) {
  std::fill_n(tiles.maximum, shape.rows(), -INFINITY);
  std::fill_n(tiles.total, shape.rows(), 0.0F);
  std::fill_n(tiles.sums.data, shape.rows() * tiles.sums.stride, 0.0F);
  int64_t longest = 0;
  for (const int64_t count : counts) longest = std::max(longest, count);
  for (int64_t first = 0; first < longest; first += kTileKeys) {
    const int64_t n = std::min(kTileKeys, longest - first);
    fetch(first, n);
    kernels.dots(tiles.queries, tiles.keys.part(0, n), shape.key_width, tiles.scores);
    int64_t row = 0;
    for (const int64_t count : counts) {
      const int64_t own = std::min(n, count - first);
      if (own > 0) {
        for (int64_t r = row; r < row + shape.heads; ++r) {
          tiles.factors[r] = kernels.softmax_tile(
              tiles.scores.row(r), own, scale, tiles.maximum + r, tiles.total + r);
        }
        kernels.accumulate(tiles.sums.part(row, shape.heads),
                           tiles.factors + row,
                           tiles.scores.from(row),
                           tiles.values.part(0, own),
                           tiles.sums.stride);
      }
      row += shape.heads;
    }
  }
}

// Row r of the result: sums over total; zeros when it attended to nothing.
inline void write_row(const AttentionShape& shape,
                      const AttentionTiles& tiles,
                      int64_t r,
                      float* out) {
  const float* sums = tiles.sums.row(r);
  const float inverse = tiles.total[r] == 0.0F ? 0.0F : 1.0F / tiles.total[r];
  for (int64_t i = 0; i < shape.value_width; ++i) out[i] = sums[i] * inverse;
}

}  // namespace baton::cpu
