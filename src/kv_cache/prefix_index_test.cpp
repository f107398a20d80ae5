#include "kv_cache/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kv_cache/block_table.h"

namespace baton {
namespace {

std::vector<int32_t> tokens_from(int32_t first, size_t count) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<int32_t>(i);
  return tokens;
}

uint64_t always_collides(uint64_t, std::span<const int32_t>) {
  return 7;
}
uint64_t eight_bits(uint64_t previous, std::span<const int32_t> tokens) {
  return hash_scope(previous, {std::to_string(tokens[0] + tokens[1]), ""}) & 0xff;
}

// A finished sequence: its full blocks stay cached.
void leave_behind(BlockPool& pool,
                  PrefixIndex& index,
                  const PrefixScope& scope,
                  const std::vector<int32_t>& tokens) {
  BlockTable table;
  ASSERT_TRUE(table.reserve(pool, static_cast<int64_t>(tokens.size())));
  table.publish(index, scope, tokens, static_cast<int64_t>(tokens.size()));
}

TEST(PrefixIndex, FindsFullBlocksOnlyAndNeverAllOfThePrompt) {
  BlockPool pool(20);
  PrefixIndex index(pool);
  const auto tokens = tokens_from(0, 200);
  leave_behind(pool, index, {}, tokens);
  EXPECT_EQ(pool.cached(), 3);
  for (const size_t length : {1U, 63U, 64U, 65U, 127U, 128U, 129U, 200U}) {
    const std::span<const int32_t> prompt(tokens.data(), length);
    const auto max_tokens = static_cast<int64_t>(length) - 1;
    const auto match = index.find({}, prompt, max_tokens);
    EXPECT_EQ(match.blocks.size(), (length - 1) / 64) << length;
    EXPECT_EQ(index.count_matching_tokens({}, prompt, max_tokens),
              static_cast<int64_t>((length - 1) / 64 * 64));
  }
}

TEST(PrefixIndex, KeepsSaltAndAdapterApart) {
  BlockPool pool(20);
  PrefixIndex index(pool, &always_collides);
  const std::vector<PrefixScope> scopes{{"A", ""}, {"", "A"}, {"", ""}, {"A", "A"}, {"AA", ""}};
  const auto tokens = tokens_from(0, 64);
  for (size_t i = 0; i < scopes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(hash_scope(1, scopes[i]), hash_scope(1, scopes[j]));
    EXPECT_EQ(index.count_matching_tokens(scopes[i], tokens, 64), 0);
    leave_behind(pool, index, scopes[i], tokens);
    EXPECT_EQ(index.count_matching_tokens(scopes[i], tokens, 64), 64);
  }
}

TEST(PrefixIndex, ComparesTokensAndChainWhenEveryHashCollides) {
  BlockPool pool(40);
  PrefixIndex index(pool, &always_collides);
  // Same second block after different first blocks.
  auto a = tokens_from(0, 128);
  auto b = tokens_from(1000, 128);
  std::copy(a.begin() + 64, a.end(), b.begin() + 64);
  leave_behind(pool, index, {}, a);
  EXPECT_EQ(index.count_matching_tokens({}, b, 128), 0);
  leave_behind(pool, index, {}, b);
  const auto match_a = index.find({}, a, 128);
  const auto match_b = index.find({}, b, 128);
  ASSERT_EQ(match_a.blocks.size(), 2U);
  ASSERT_EQ(match_b.blocks.size(), 2U);
  EXPECT_NE(match_a.blocks[1].id(), match_b.blocks[1].id());
  a[5] = 99;
  EXPECT_EQ(index.count_matching_tokens({}, a, 128), 0);
}

// Two thousand prompts under an 8-bit hash: every block found holds that prompt's tokens.
TEST(PrefixIndex, GivesNoOtherPromptsBlocksUnderAnEightBitHash) {
  BlockPool pool(300);
  PrefixIndex index(pool, &eight_bits);
  std::map<BlockId, std::vector<int32_t>> content;
  std::mt19937 random(1);
  int hits = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto tokens = tokens_from(static_cast<int32_t>(random() % 300) * 64, 64);
    auto match = index.find({}, tokens, 64);
    if (!match.blocks.empty()) {
      ++hits;
      EXPECT_EQ(content[match.blocks[0].id()], tokens);
      continue;
    }
    BlockTable table;
    ASSERT_TRUE(table.reserve(pool, 64));
    content[table.ids()[0]] = tokens;
    table.publish(index, {}, tokens, 64);
  }
  EXPECT_GT(hits, 100);
  EXPECT_TRUE(index.check());
}

TEST(PrefixIndex, RegistersOnlyWhatIsComputed) {
  BlockPool pool(20);
  PrefixIndex index(pool);
  const auto tokens = tokens_from(0, 200);
  BlockTable table;
  ASSERT_TRUE(table.reserve(pool, 200));
  table.publish(index, {}, tokens, 127);
  EXPECT_EQ(index.count_matching_tokens({}, tokens, 200), 64);
  table.publish(index, {}, tokens, 128);
  EXPECT_EQ(index.count_matching_tokens({}, tokens, 200), 128);
}

TEST(PrefixIndex, MergesEqualBlocksOfSequencesThatRanTogether) {
  BlockPool pool(20);
  PrefixIndex index(pool);
  const auto tokens = tokens_from(0, 128);
  BlockTable a, b;
  ASSERT_TRUE(a.reserve(pool, 128));
  ASSERT_TRUE(b.reserve(pool, 128));
  a.publish(index, {}, tokens, 64);
  b.publish(index, {}, tokens, 128);
  a.publish(index, {}, tokens, 128);
  EXPECT_TRUE(std::ranges::equal(a.ids(), b.ids()));
  EXPECT_EQ(pool.referenced(), 2);
  a.clear();
  EXPECT_EQ(pool.referenced(), 2);
  b.clear();
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_TRUE(pool.check());
  EXPECT_TRUE(index.check());
}

TEST(PrefixIndex, EvictsChildrenBeforeParents) {
  BlockPool pool(6);
  PrefixIndex index(pool);
  const auto tokens = tokens_from(0, 320);
  leave_behind(pool, index, {}, tokens);
  std::vector<BlockRef> taken;
  for (int64_t left = 5; left > 0; --left) {
    EXPECT_EQ(index.count_matching_tokens({}, tokens, 320), left * 64);
    taken.push_back(*pool.allocate());
    EXPECT_TRUE(index.check());
  }
}

// A block number that comes back with other content never answers for its old chain.
TEST(PrefixIndex, ForgetsAChainWhoseBlockWasReused) {
  BlockPool pool(3);
  PrefixIndex index(pool, &always_collides);
  leave_behind(pool, index, {}, tokens_from(0, 128));
  leave_behind(pool, index, {}, tokens_from(500, 128));
  EXPECT_EQ(index.count_matching_tokens({}, tokens_from(0, 128), 128), 0);
  EXPECT_EQ(index.count_matching_tokens({}, tokens_from(500, 128), 128), 128);
}

TEST(PrefixIndex, ForgetsABlockWithAllThatIsBuiltOnIt) {
  BlockPool pool(20);
  PrefixIndex index(pool);
  auto shared = tokens_from(0, 192);
  leave_behind(pool, index, {}, shared);
  auto branch = shared;
  branch[130] = 7777;
  BlockTable running;  // uses the shared blocks while they are forgotten
  running.adopt(index.find({}, branch, 191));
  ASSERT_TRUE(running.reserve(pool, 320));
  const auto other = tokens_from(5000, 128);
  leave_behind(pool, index, {}, other);
  index.forget(running.ids()[0]);
  EXPECT_EQ(index.count_matching_tokens({}, shared, 192), 0);
  EXPECT_EQ(index.count_matching_tokens({}, other, 128), 128);
  EXPECT_TRUE(pool.check());
  EXPECT_TRUE(index.check());
  // What the running sequence computes on top is not offered either.
  auto longer = branch;
  longer.resize(320, 9);
  running.publish(index, {}, longer, 320);
  EXPECT_EQ(index.count_matching_tokens({}, longer, 320), 0);
  running.clear();
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_EQ(pool.referenced(), 0);
  EXPECT_TRUE(pool.check());
  EXPECT_TRUE(index.check());
  leave_behind(pool, index, {}, shared);
  EXPECT_EQ(index.count_matching_tokens({}, shared, 192), 192);
}

}  // namespace
}  // namespace baton
