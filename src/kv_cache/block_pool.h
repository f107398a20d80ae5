// Who holds which block. Owned and used by the engine thread alone. A block is in one of three
// states: free, cached (nobody holds it, but its content is registered in the prefix index and
// may be found again) or referenced. The bytes themselves live in one device buffer that the
// engine allocates; here a block is its number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "kv_cache/row_formats/index_page.h"

namespace baton {

using BlockId = int32_t;

// No sequence uses block 0: padding rows of captured graphs write there.
constexpr BlockId kScratchBlock = 0;

constexpr int64_t blocks_for_tokens(int64_t tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

class BlockPool;

// One reference to a block; gives it back when destroyed. Move-only. The pool outlives it.
class BlockRef {
 public:
  BlockRef() = default;
  ~BlockRef() { reset(); }
  BlockRef(BlockRef&& other) noexcept;
  BlockRef& operator=(BlockRef&& other) noexcept;
  BlockRef(const BlockRef&) = delete;
  BlockRef& operator=(const BlockRef&) = delete;

  BlockId id() const { return id_; }
  void reset();

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, BlockId id) : pool_(pool), id_(id) {}

  BlockPool* pool_ = nullptr;
  BlockId id_ = -1;
};

class BlockPool {
 public:
  // `blocks` counts the reserved scratch block.
  explicit BlockPool(int32_t blocks);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  int32_t total() const { return static_cast<int32_t>(states_.size()) - 1; }  // without scratch
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached() const { return cached_; }  // unreferenced, still holding a prefix
  int32_t referenced() const { return total() - free() - cached(); }
  int32_t available() const { return free() + cached(); }  // what allocate() can still give

  // A free block, or the least recently used cached one, which then leaves the prefix index.
  // Nothing when every block is referenced.
  std::optional<BlockRef> allocate();
  // One more reference to a block that is referenced or cached.
  BlockRef share(BlockId id);

  // The prefix index says what it has registered or forgotten, and hears what is evicted. A
  // block is registered while it is referenced; it may be forgotten in any state.
  void set_registered(BlockId id);
  void set_forgotten(BlockId id);
  void on_evict(std::function<void(BlockId)> listener) { evicted_ = std::move(listener); }

  // Every block is in exactly one state and the lists agree with it. Any time.
  Status check() const;

 private:
  friend class BlockRef;
  struct State {
    int32_t references = 0;
    bool registered = false;
    BlockId newer = -1, older = -1;  // neighbours in the list of cached blocks
  };
  State& state(BlockId id) { return states_[static_cast<size_t>(id)]; }
  const State& state(BlockId id) const { return states_[static_cast<size_t>(id)]; }
  void release(BlockId id);
  void link_newest(BlockId id);
  void unlink(BlockId id);

  std::vector<State> states_;
  std::vector<BlockId> free_;
  BlockId newest_ = -1, oldest_ = -1;
  int32_t cached_ = 0;
  std::function<void(BlockId)> evicted_;
};

}  // namespace baton
