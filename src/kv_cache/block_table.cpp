#include "kv_cache/block_table.h"

#include <utility>

#include "base/check.h"

namespace baton {

void BlockTable::adopt(PrefixIndex::Match&& match) {
  BATON_CHECK(refs_.empty(), "a table that starts with a prefix must be empty");
  refs_ = std::move(match.blocks);
  for (const BlockRef& ref : refs_) ids_.push_back(ref.id());
  published_ = refs_.size();
  chain_ = match.chain;
}

bool BlockTable::reserve(BlockPool& pool, int64_t tokens) {
  const int64_t missing = blocks_for_tokens(tokens) - size();
  if (missing > pool.available()) return false;
  for (int64_t i = 0; i < missing; ++i) {
    refs_.push_back(*pool.allocate());
    ids_.push_back(refs_.back().id());
  }
  return true;
}

void BlockTable::shrink(int64_t tokens) {
  const auto needed = static_cast<size_t>(blocks_for_tokens(tokens));
  BATON_CHECK(needed >= published_, "giving back a registered block:", needed, published_);
  while (refs_.size() > needed) {
    refs_.pop_back();
    ids_.pop_back();
  }
}

void BlockTable::publish(PrefixIndex& index,
                         const PrefixScope& scope,
                         std::span<const int32_t> tokens,
                         int64_t computed) {
  constexpr auto kBlock = static_cast<size_t>(kBlockTokens);
  while ((published_ + 1) * kBlock <= static_cast<size_t>(computed)) {
    const size_t i = published_;
    auto registered = index.insert(scope, chain_, ids_[i], tokens.subspan(i * kBlock, kBlock));
    if (registered.existing) {
      refs_[i] = *std::move(registered.existing);
      ids_[i] = refs_[i].id();
    }
    chain_ = registered.chain;
    ++published_;
  }
}

void BlockTable::forget(PrefixIndex& index) const {
  for (size_t i = 0; i < published_; ++i) index.forget(ids_[i]);
}

void BlockTable::clear() {
  while (!refs_.empty()) refs_.pop_back();
  ids_.clear();
  published_ = 0;
  chain_ = kRootChain;
}

}  // namespace baton
