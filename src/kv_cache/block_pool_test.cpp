#include "kv_cache/block_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace baton {
namespace {

TEST(BlockPool, GivesEveryBlockOnceAndNeverTheScratchBlock) {
  BlockPool pool(5);
  std::vector<BlockRef> held;
  std::set<BlockId> ids;
  while (auto block = pool.allocate()) {
    ids.insert(block->id());
    held.push_back(*std::move(block));
  }
  EXPECT_EQ(ids, (std::set<BlockId>{1, 2, 3, 4}));
  EXPECT_EQ(pool.referenced(), 4);
  EXPECT_EQ(pool.available(), 0);
  held.clear();
  EXPECT_EQ(pool.free(), 4);
  EXPECT_TRUE(pool.check());
}

TEST(BlockPool, KeepsRegisteredBlocksUntilTheyAreTheLeastRecentlyUsed) {
  BlockPool pool(4);
  std::vector<BlockId> evicted;
  pool.on_evict([&](BlockId id) { evicted.push_back(id); });
  std::vector<BlockId> ids;
  {
    std::vector<BlockRef> held;
    for (int i = 0; i < 3; ++i) {
      held.push_back(*pool.allocate());
      ids.push_back(held.back().id());
      pool.set_registered(ids.back());
    }
    for (auto& block : held) block.reset();  // oldest: ids[0]
  }
  EXPECT_EQ(pool.cached(), 3);
  { const BlockRef used_again = pool.share(ids[0]); }
  const auto first = pool.allocate();
  const auto second = pool.allocate();
  EXPECT_EQ(evicted, (std::vector<BlockId>{ids[1], ids[2]}));
  EXPECT_EQ(pool.cached(), 1);
  EXPECT_TRUE(pool.check());
}

TEST(BlockPool, NeverEvictsWhatIsReferenced) {
  BlockPool pool(3);
  auto first = *pool.allocate();
  pool.set_registered(first.id());
  const auto second = pool.allocate();
  EXPECT_FALSE(pool.allocate().has_value());
  const BlockRef again = pool.share(first.id());
  first.reset();
  EXPECT_FALSE(pool.allocate().has_value());
  EXPECT_EQ(pool.referenced(), 2);
  EXPECT_TRUE(pool.check());
}

}  // namespace
}  // namespace baton
