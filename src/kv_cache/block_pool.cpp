#include "kv_cache/block_pool.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace baton {

BlockRef::BlockRef(BlockRef&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), id_(std::exchange(other.id_, -1)) {}

BlockRef& BlockRef::operator=(BlockRef&& other) noexcept {
  if (this != &other) {
    reset();
    pool_ = std::exchange(other.pool_, nullptr);
    id_ = std::exchange(other.id_, -1);
  }
  return *this;
}

void BlockRef::reset() {
  if (pool_ != nullptr) pool_->release(id_);
  pool_ = nullptr;
  id_ = -1;
}

BlockPool::BlockPool(int32_t blocks) : states_(static_cast<size_t>(blocks)) {
  BATON_CHECK(blocks >= 2, "a pool needs the scratch block and one more, got", blocks);
  free_.reserve(states_.size());
  for (BlockId id = blocks - 1; id > kScratchBlock; --id) free_.push_back(id);
}

std::optional<BlockRef> BlockPool::allocate() {
  BlockId id = oldest_;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (id >= 0) {
    unlink(id);
    state(id).registered = false;
    if (evicted_) evicted_(id);
  } else {
    return std::nullopt;
  }
  BATON_CHECK(state(id).references == 0, "allocating block", id);
  state(id).references = 1;
  return BlockRef(this, id);
}

BlockRef BlockPool::share(BlockId id) {
  State& block = state(id);
  if (block.references == 0) {
    BATON_CHECK(block.registered, "sharing free block", id);
    unlink(id);
  }
  ++block.references;
  return BlockRef(this, id);
}

void BlockPool::set_registered(BlockId id) {
  BATON_CHECK(state(id).references > 0, "block", id, "is not referenced");
  state(id).registered = true;
}

void BlockPool::set_forgotten(BlockId id) {
  State& block = state(id);
  BATON_CHECK(block.registered, "block", id, "is not registered");
  if (block.references == 0) {
    unlink(id);
    free_.push_back(id);
  }
  block.registered = false;
}

void BlockPool::release(BlockId id) {
  State& block = state(id);
  BATON_CHECK(block.references > 0, "block", id, "released twice");
  if (--block.references > 0) return;
  if (block.registered) {
    link_newest(id);
  } else {
    free_.push_back(id);
  }
}

void BlockPool::link_newest(BlockId id) {
  State& block = state(id);
  block.newer = -1;
  block.older = newest_;
  if (newest_ >= 0) state(newest_).newer = id;
  newest_ = id;
  if (oldest_ < 0) oldest_ = id;
  ++cached_;
}

void BlockPool::unlink(BlockId id) {
  State& block = state(id);
  (block.newer >= 0 ? state(block.newer).older : newest_) = block.older;
  (block.older >= 0 ? state(block.older).newer : oldest_) = block.newer;
  block.newer = block.older = -1;
  --cached_;
}

Status BlockPool::check() const {
  std::vector<int> seen(states_.size(), 0);
  for (const BlockId id : free_) {
    if (id <= kScratchBlock || state(id).references != 0 || state(id).registered) {
      return internal_error("block pool: block " + std::to_string(id) + " is not free");
    }
    ++seen[static_cast<size_t>(id)];
  }
  int32_t listed = 0;
  for (BlockId id = newest_; id >= 0 && listed <= total(); id = state(id).older, ++listed) {
    if (state(id).references != 0 || !state(id).registered) {
      return internal_error("block pool: block " + std::to_string(id) + " is not cached");
    }
    ++seen[static_cast<size_t>(id)];
  }
  if (listed != cached_) {
    return internal_error("block pool: " + std::to_string(listed) + " blocks in the cached list, " +
                          std::to_string(cached_) + " counted");
  }
  for (BlockId id = 1; id <= total(); ++id) {
    const int expected = state(id).references > 0 ? 0 : 1;
    if (seen[static_cast<size_t>(id)] != expected) {
      return internal_error("block pool: block " + std::to_string(id) + " is in " +
                            std::to_string(seen[static_cast<size_t>(id)]) + " lists, expected " +
                            std::to_string(expected));
    }
  }
  return {};
}

}  // namespace baton
