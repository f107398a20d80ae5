#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

TEST(ParseJson, KeepsKeyOrder) {
  const Result<Json> value = parse_json(R"({"b":1,"a":2})", "test");
  ASSERT_TRUE(value);
  EXPECT_EQ(dump_json(*value), R"({"b":1,"a":2})");
}

TEST(ParseJson, NamesTheSourceInErrors) {
  const Result<Json> value = parse_json("{\"a\": tru", "request body");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().message.find("request body: not valid JSON"), 0U);
}

TEST(ParseJson, RefusesDeepNestingWithoutParsing) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += open;
    EXPECT_FALSE(parse_json(text, "body"));
  }
  EXPECT_TRUE(parse_json("\"[[[[[[[[[[\"", "body", {.max_depth = 1}));
}

TEST(DumpJson, ReplacesInvalidUtf8) {
  EXPECT_NO_THROW(dump_json(Json(std::string("a\xff"))));
}

TEST(ReadFile, SaysWhichPathIsMissingOrAFolder) {
  EXPECT_EQ(read_file("no/such/file").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_file("/tmp").error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
