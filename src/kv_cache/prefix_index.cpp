#include "kv_cache/prefix_index.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace baton {
namespace {

// Tags of the parts of a scope.
constexpr uint64_t kSaltTag = 1;
constexpr uint64_t kAdapterTag = 2;

constexpr auto kBlock = static_cast<size_t>(kBlockTokens);

}  // namespace

uint64_t hash_scope(uint64_t seed, const PrefixScope& scope) {
  // hash_bytes starts from the length, so parts cannot run into each other.
  const uint64_t salt = hash_bytes(hash_mix(seed, kSaltTag), scope.salt);
  return hash_bytes(hash_mix(salt, kAdapterTag), scope.adapter);
}

PrefixIndex::PrefixIndex(BlockPool& pool, Hash hash)
    : pool_(pool),
      hash_(hash != nullptr ? hash : &hash_tokens),
      seed_(random_seed()),
      entries_(static_cast<size_t>(pool.total()) + 1) {
  pool_.on_evict([this](BlockId block) { erase(block); });
}

uint64_t PrefixIndex::chain_hash(const PrefixScope& scope,
                                 ChainId parent,
                                 std::span<const int32_t> tokens) const {
  // A chain's number stands for all that came before it: hashing it chains the hash.
  const uint64_t previous =
      parent == kRootChain ? hash_scope(seed_, scope) : hash_mix(seed_, parent);
  return hash_(previous, tokens);
}

BlockId PrefixIndex::lookup(const PrefixScope& scope,
                            ChainId parent,
                            std::span<const int32_t> tokens) const {
  const auto [first, last] = by_hash_.equal_range(chain_hash(scope, parent, tokens));
  for (auto it = first; it != last; ++it) {
    const Entry& candidate = entry(it->second);
    if (candidate.parent != parent) continue;
    if (parent == kRootChain && *candidate.scope != scope) continue;
    if (std::ranges::equal(candidate.tokens, tokens)) return it->second;
  }
  return -1;
}

PrefixIndex::Match PrefixIndex::find(const PrefixScope& scope,
                                     std::span<const int32_t> tokens,
                                     int64_t max_tokens) {
  Match match;
  const size_t limit =
      std::min(tokens.size(), static_cast<size_t>(std::max<int64_t>(0, max_tokens)));
  for (size_t at = 0; at + kBlock <= limit; at += kBlock) {
    const BlockId block = lookup(scope, match.chain, tokens.subspan(at, kBlock));
    if (block < 0) break;
    match.blocks.push_back(pool_.share(block));
    match.chain = entry(block).chain;
  }
  return match;
}

int64_t PrefixIndex::count_matching_tokens(const PrefixScope& scope,
                                           std::span<const int32_t> tokens,
                                           int64_t max_tokens) const {
  ChainId chain = kRootChain;
  size_t at = 0;
  const size_t limit =
      std::min(tokens.size(), static_cast<size_t>(std::max<int64_t>(0, max_tokens)));
  for (; at + kBlock <= limit; at += kBlock) {
    const BlockId block = lookup(scope, chain, tokens.subspan(at, kBlock));
    if (block < 0) break;
    chain = entry(block).chain;
  }
  return static_cast<int64_t>(at);
}

PrefixIndex::Registered PrefixIndex::insert(const PrefixScope& scope,
                                            ChainId parent,
                                            BlockId block,
                                            std::span<const int32_t> tokens) {
  BATON_CHECK(tokens.size() == kBlock, "only full blocks are registered, got", tokens.size());
  if (!is_live(parent)) return {.chain = kForgottenChain, .existing = std::nullopt};
  if (const BlockId known = lookup(scope, parent, tokens); known >= 0) {
    BATON_CHECK(known != block, "block", block, "registered twice");
    return {.chain = entry(known).chain, .existing = pool_.share(known)};
  }
  Entry& added = entry(block);
  BATON_CHECK(added.chain == 0, "block", block, "is registered with other content");
  added.chain = next_chain_++;
  added.parent = parent;
  added.hash = chain_hash(scope, parent, tokens);
  std::ranges::copy(tokens, added.tokens.begin());
  if (parent == kRootChain) added.scope = std::make_unique<const PrefixScope>(scope);
  by_hash_.emplace(added.hash, block);
  live_.insert(added.chain);
  pool_.set_registered(block);
  return {.chain = added.chain, .existing = std::nullopt};
}

void PrefixIndex::erase(BlockId block) {
  Entry& gone = entry(block);
  const auto [first, last] = by_hash_.equal_range(gone.hash);
  const auto found =
      std::find_if(first, last, [&](const auto& item) { return item.second == block; });
  BATON_CHECK(gone.chain != 0 && found != last, "evicting unregistered block", block);
  by_hash_.erase(found);
  live_.erase(gone.chain);
  gone.chain = 0;
  gone.scope.reset();
}

void PrefixIndex::forget(BlockId block) {
  if (entry(block).chain == 0) return;
  std::vector<BlockId> going{block};
  for (size_t i = 0; i < going.size(); ++i) {
    const ChainId chain = entry(going[i]).chain;
    for (size_t other = 0; other < entries_.size(); ++other) {
      const Entry& each = entries_[other];
      if (each.chain != 0 && each.parent == chain) going.push_back(static_cast<BlockId>(other));
    }
  }
  for (const BlockId each : going) {
    erase(each);
    pool_.set_forgotten(each);
  }
}

Status PrefixIndex::check() const {
  size_t registered = 0;
  for (const Entry& each : entries_) {
    if (each.chain == 0) continue;
    ++registered;
    if (!is_live(each.chain)) return internal_error("prefix index: an entry is not live");
  }
  if (registered != by_hash_.size() || registered != live_.size()) {
    return internal_error("prefix index: " + std::to_string(registered) + " entries, " +
                          std::to_string(by_hash_.size()) + " in the table");
  }
  for (const Entry& each : entries_) {
    if (each.chain != 0 && !is_live(each.parent)) {
      return internal_error("prefix index: chain " + std::to_string(each.chain) +
                            " has lost its parent " + std::to_string(each.parent));
    }
  }
  return {};
}

}  // namespace baton
