#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace baton {
namespace {

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good(3);
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 3);
  const Result<int> bad(invalid_argument("port: expected 1..65535, got 0"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bad.error().message, "port: expected 1..65535, got 0");
}

TEST(Result, MovesMoveOnlyValues) {
  Result<std::unique_ptr<int>> made(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 7);
}

TEST(Status, IsOkUnlessGivenAnError) {
  EXPECT_TRUE(Status());
  EXPECT_FALSE(Status(internal_error("x")));
}

}  // namespace
}  // namespace baton
