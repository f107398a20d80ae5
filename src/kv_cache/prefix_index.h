// Finds blocks that already hold the KV of a prefix. Owned and used by the engine thread.
//
// An entry is one full block: 64 tokens, the entry of the block before it, and, for the first
// block of a sequence, the tenant's salt. The hash only finds candidates: a hit needs the same
// tokens, the same parent entry and, at the root, the same salt, so a collision costs a
// comparison and never gives another prompt's KV. Every entry has a number that is never used
// again; it names the whole chain up to it, and stays valid when block numbers are reused.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "kv_cache/block_pool.h"

namespace baton {

// Names a chain of full blocks; kRootChain with a salt is the empty one.
using ChainId = uint64_t;
constexpr ChainId kRootChain = 0;
// Follows a chain that was forgotten: nothing is registered behind it.
constexpr ChainId kForgottenChain = ~ChainId{0};

// What blocks of one tenant are found under. Parts of different meaning stay apart by type and
// are hashed with a tag and a length each: no salt can equal an adapter's name.
struct PrefixScope {
  std::string salt;     // cache_salt of the request; empty is a scope of its own
  std::string adapter;  // reserved for weights that change the KV of the same tokens

  bool operator==(const PrefixScope&) const = default;
};
uint64_t hash_scope(uint64_t seed, const PrefixScope& scope);

class PrefixIndex {
 public:
  using Hash = uint64_t (*)(uint64_t previous, std::span<const int32_t> tokens);

  // `hash` is replaced in tests (a hash that always collides); nullptr: base/hash, seeded anew
  // in every process so that nobody outside can construct collisions.
  explicit PrefixIndex(BlockPool& pool, Hash hash = nullptr);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  struct Match {
    std::vector<BlockRef> blocks;
    ChainId chain = kRootChain;
  };
  // The longest registered prefix of `tokens`, in full blocks, at most `max_tokens`. The
  // references in the answer keep it.
  Match find(const PrefixScope& scope, std::span<const int32_t> tokens, int64_t max_tokens);
  // Same, without taking references or touching the order of use.
  int64_t count_matching_tokens(const PrefixScope& scope,
                                std::span<const int32_t> tokens,
                                int64_t max_tokens) const;

  // Registers a block whose 64 rows are all computed, after `parent`. When another block
  // already holds the same chain, that one is returned in `existing` and the caller uses it
  // from now on: so all registered blocks of a sequence are referenced together, and a parent
  // is never evicted before its child.
  struct Registered {
    ChainId chain = kRootChain;
    std::optional<BlockRef> existing;
  };
  Registered insert(const PrefixScope& scope,
                    ChainId parent,
                    BlockId block,
                    std::span<const int32_t> tokens);

  // Takes a registered block and everything behind it out, whoever uses it: its content is not
  // to be trusted. Rare; looks at every block. A block that is not registered is left alone.
  void forget(BlockId block);

  size_t size() const { return by_hash_.size(); }
  // Every entry is in the table, and its parent entry exists.
  Status check() const;

 private:
  struct Entry {
    ChainId chain = 0;  // 0: this block is not registered
    ChainId parent = kRootChain;
    uint64_t hash = 0;
    std::array<int32_t, kBlockTokens> tokens{};
    std::unique_ptr<const PrefixScope> scope;  // of the first block only
  };
  const Entry& entry(BlockId block) const { return entries_[static_cast<size_t>(block)]; }
  Entry& entry(BlockId block) { return entries_[static_cast<size_t>(block)]; }
  uint64_t chain_hash(const PrefixScope& scope,
                      ChainId parent,
                      std::span<const int32_t> tokens) const;
  // -1: none.
  BlockId lookup(const PrefixScope& scope, ChainId parent, std::span<const int32_t> tokens) const;
  void erase(BlockId block);
  bool is_live(ChainId chain) const { return chain == kRootChain || live_.contains(chain); }

  BlockPool& pool_;
  Hash hash_;
  uint64_t seed_;
  ChainId next_chain_ = 1;
  std::vector<Entry> entries_;  // by block
  std::unordered_multimap<uint64_t, BlockId> by_hash_;
  std::unordered_set<ChainId> live_;  // of all entries
};

}  // namespace baton
