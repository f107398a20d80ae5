// Where the cached row of a token lies. A block table entry of -1 must never be reached.
#pragma once

#include "kernels/kernels.h"

namespace baton::reference {

// The block that holds `position` of the sequence of batch token `token`.
template <typename Cache>
uint8_t* block_of(const Cache& cache, const BatchLayout& batch, int64_t token, int64_t position) {
  const int64_t sequence = batch.sequence_of.as<int32_t>()[token];
  const int64_t column = position / kBlockTokens;
  BATON_CHECK(sequence >= 0 && sequence < batch.block_table.dim(0), sequence);
  BATON_CHECK(position >= 0 && column < batch.block_table.dim(1), position);
  const int64_t block =
      batch.block_table.as<int32_t>()[sequence * batch.block_table.stride(0) + column];
  BATON_CHECK(block >= 0, "no block for position", position, "of sequence", sequence);
  return cache.blocks + block * cache.block_stride + cache.offset;
}

inline uint8_t* row_of(const LatentCache& cache,
                       const BatchLayout& batch,
                       int64_t token,
                       int64_t position) {
  return block_of(cache, batch, token, position) +
         position % kBlockTokens * latent_row_bytes(cache.row);
}

inline uint8_t* row_of(const PlainCache& cache,
                       const BatchLayout& batch,
                       int64_t token,
                       int64_t position) {
  return block_of(cache, batch, token, position) +
         position % kBlockTokens * plain_row_bytes(cache.row);
}

}  // namespace baton::reference
