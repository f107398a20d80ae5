// The blocks of one sequence, in order of position, and how many of them the prefix index
// knows. Owned by the sequence; engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/block_pool.h"
#include "kv_cache/prefix_index.h"

namespace baton {

class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&&) noexcept = default;
  BlockTable& operator=(BlockTable&&) noexcept = default;
  ~BlockTable() { clear(); }

  // Blocks of positions [64 i, 64 i + 64).
  std::span<const BlockId> ids() const { return ids_; }
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  int64_t capacity_tokens() const { return size() * kBlockTokens; }

  // Starts an empty table with blocks that were found in the index.
  void adopt(PrefixIndex::Match&& match);
  // Grows to hold `tokens`. False, and nothing taken, when the pool has too few blocks.
  [[nodiscard]] bool reserve(BlockPool& pool, int64_t tokens);
  // Gives back what is not needed to hold `tokens`; registered blocks are.
  void shrink(int64_t tokens);
  // Registers the blocks that the first `computed` of `tokens` fill and that are not yet known.
  void publish(PrefixIndex& index,
               const PrefixScope& scope,
               std::span<const int32_t> tokens,
               int64_t computed);
  // Takes its blocks out of the index, and all that was built on them.
  void forget(PrefixIndex& index) const;
  // Gives all blocks back, the last one first: children are then less recently used than their
  // parents and are evicted before them.
  void clear();

 private:
  std::vector<BlockRef> refs_;
  std::vector<BlockId> ids_;  // of refs_
  size_t published_ = 0;      // blocks the index knows
  ChainId chain_ = kRootChain;
};

}  // namespace baton
