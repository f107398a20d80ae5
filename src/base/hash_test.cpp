#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace baton {
namespace {

TEST(HashTokens, DependsOnOrderLengthAndTheChain) {
  const std::vector<int32_t> a{1, 2, 3};
  const std::vector<int32_t> b{1, 3, 2};
  const std::vector<int32_t> c{1, 2, 3, 0};
  const std::set<uint64_t> hashes{
      hash_tokens(1, a), hash_tokens(1, b), hash_tokens(1, c), hash_tokens(2, a)};
  EXPECT_EQ(hashes.size(), 4U);
  EXPECT_EQ(hash_tokens(1, a), hash_tokens(1, a));
}

TEST(HashBytes, HasNoCollisionsAmongManySmallInputs) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 20000; ++i) seen.insert(hash_bytes(9, "key" + std::to_string(i)));
  EXPECT_EQ(seen.size(), 20000U);
}

}  // namespace
}  // namespace baton
