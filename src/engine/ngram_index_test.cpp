#include "engine/ngram_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int32_t> continued(const NgramIndex& index,
                               const std::vector<int32_t>& tokens,
                               int32_t count) {
  std::vector<int32_t> out;
  index.continuation(tokens, count, out);
  return out;
}

std::vector<int32_t> continued(const std::vector<int32_t>& tokens,
                               int32_t shortest,
                               int32_t longest,
                               int32_t count) {
  NgramIndex index(shortest, longest);
  index.extend(tokens);
  return continued(index, tokens, count);
}

TEST(NgramIndex, ContinuesTheLastEarlierPlaceOfTheLongestRun) {
  // 1 2 stood before 9, then before 7; 5 1 2 only before 9.
  EXPECT_THAT(continued({5, 1, 2, 9, 8, 4, 1, 2, 7, 6, 3, 1, 2}, 2, 3, 2), ElementsAre(7, 6));
  EXPECT_THAT(continued({5, 1, 2, 9, 8, 4, 1, 2, 7, 6, 5, 1, 2}, 2, 3, 2), ElementsAre(9, 8));
  EXPECT_THAT(continued({5, 1, 2, 9, 8, 4, 1, 2, 7, 6, 5, 1, 2}, 2, 2, 2), ElementsAre(7, 6));
}

TEST(NgramIndex, SaysNothingWhereNoRunStoodBefore) {
  EXPECT_THAT(continued({1, 2, 3, 4, 5}, 2, 4, 3), IsEmpty());
  EXPECT_THAT(continued({2, 3, 9, 3}, 2, 4, 3), IsEmpty());
  EXPECT_THAT(continued({2, 3}, 2, 4, 3), IsEmpty());
  EXPECT_THAT(continued({2}, 2, 4, 3), IsEmpty());
  EXPECT_THAT(continued({7, 7}, 1, 1, 3), ElementsAre(7, 7, 7));
}

TEST(NgramIndex, GoesOnWithItselfBehindTheEnd) {
  EXPECT_THAT(continued({9, 1, 2, 3, 1, 2, 3}, 2, 3, 7), ElementsAre(1, 2, 3, 1, 2, 3, 1));
}

// The plain search: every earlier place, the longest run, the last of equals.
std::vector<int32_t> expected(const std::vector<int32_t>& tokens,
                              int32_t shortest,
                              int32_t longest,
                              int32_t count) {
  const auto size = static_cast<int32_t>(tokens.size());
  int32_t best = 0, best_length = shortest - 1;
  for (int32_t place = size - 1; place > 0; --place) {
    int32_t length = 0;
    while (length < std::min(longest, place) &&
           tokens[static_cast<size_t>(place - 1 - length)] ==
               tokens[static_cast<size_t>(size - 1 - length)]) {
      ++length;
    }
    if (length > best_length) {
      best_length = length;
      best = place;
    }
  }
  std::vector<int32_t> all = tokens;
  if (best == 0) return {};
  for (int32_t i = 0; i < count; ++i) all.push_back(all[static_cast<size_t>(best + i)]);
  return {all.begin() + size, all.end()};
}

TEST(NgramIndex, EqualsAPlainSearchWhileItGrows) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const auto shortest = static_cast<int32_t>(1 + random() % 4);
    const auto longest = shortest + static_cast<int32_t>(random() % 4);
    const uint32_t vocab = shortest == 1 ? 40 : 12;  // no run stands in more than 64 places
    NgramIndex index(shortest, longest);
    std::vector<int32_t> tokens;
    while (tokens.size() < 600) {
      for (auto more = 1 + random() % 20; more > 0; --more) {
        // Half of the time what follows some earlier place, so that long runs repeat.
        const bool repeats = !tokens.empty() && random() % 2 == 0;
        tokens.push_back(
            repeats ? tokens[tokens.size() - 1 - random() % std::min<size_t>(tokens.size(), 30)]
                    : static_cast<int32_t>(random() % vocab));
      }
      index.extend(tokens);
      if (random() % 3 == 0) index.extend(tokens);  // again: nothing is new
      ASSERT_EQ(continued(index, tokens, 5), expected(tokens, shortest, longest, 5));
    }
  }
}

TEST(NgramIndex, TakesALongPromptInOverSeveralCalls) {
  std::vector<int32_t> tokens(100000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 50000);
  NgramIndex index(3, 5);
  index.extend(tokens);
  EXPECT_THAT(continued(index, tokens, 2), IsEmpty());
  for (int i = 0; i < 10; ++i) index.extend(tokens);
  EXPECT_THAT(continued(index, tokens, 2), ElementsAre(0, 1));
}

}  // namespace
}  // namespace baton
