#include "base/json.h"

#include <gtest/gtest.h>

#include <chrono>
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

TEST(ParseJson, TakesEveryKindOfValue) {
  const char* text =
      R"({"a":[null,true,-1,18446744073709551615,1.5,1e300,"\u00e9\ud83d\ude00",[],{}],"b":{"c":[{"d":""}]}})";
  const Result<Json> value = parse_json(text, "test");
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, Json::parse(text));
  EXPECT_TRUE((*value)["a"][2].is_number_integer());
  EXPECT_TRUE((*value)["a"][3].is_number_unsigned());
  EXPECT_EQ(*parse_json(" 5 ", "test"), 5);
}

TEST(ParseJson, RefusesWhatIsNoJson) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "nul",
                           "1 2",
                           "01",
                           "1e999",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\xff\"",
                           "\"a\nb\"",
                           "[1}",
                           "NaN"}) {
    const Result<Json> value = parse_json(text, "test");
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().message.find("test: not valid JSON: "), 0U) << value.error().message;
  }
}

TEST(ParseJson, LetsTheLastOfEqualKeysCount) {
  EXPECT_EQ(parse_json(R"({"a":1,"b":2,"a":[3]})", "test")->dump(), R"({"a":[3],"b":2})");
  std::string text = "{";
  for (int i = 0; i < 100; ++i) text += "\"k" + std::to_string(i) + "\":0,";
  const Result<Json> value = parse_json(text + "\"k0\":{\"x\":1},\"k99\":2,\"k99\":3}", "test");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->size(), 100U);
  EXPECT_EQ((*value)["k0"]["x"], 1);
  EXPECT_EQ((*value)["k99"], 3);
}

TEST(ParseJson, TakesAnObjectOfAHundredThousandKeysAtOnce) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) text += "\"key" + std::to_string(i) + "\":0,";
  text += "\"end\":1}";
  const auto start = std::chrono::steady_clock::now();
  const Result<Json> value = parse_json(text, "test");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  ASSERT_TRUE(value);
  EXPECT_EQ(value->size(), 100001U);
}

TEST(DumpJson, ReplacesInvalidUtf8) {
  EXPECT_NO_THROW(dump_json(Json(std::string("a\xff"))));
}

}  // namespace
}  // namespace baton
