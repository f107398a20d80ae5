#include "server/openai/json_body.h"

#include <gtest/gtest.h>

#include <random>

namespace baton {
namespace {

// The same value, types included, or the same error.
void expect_same(const std::string& body) {
  const Result<Json> expected = parse_json(body, "request body");
  const Result<Json> got = parse_json_body(body);
  ASSERT_EQ(expected.has_value(), got.has_value()) << body.substr(0, 200);
  if (!expected) {
    EXPECT_EQ(got.error().message, expected.error().message) << body.substr(0, 200);
    return;
  }
  EXPECT_EQ(Json::to_cbor(*got), Json::to_cbor(*expected)) << body.substr(0, 200);
}

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']');
}

const std::vector<std::string>& bodies() {
  static const std::vector<std::string> list = {
      "",
      " ",
      "{",
      "{}",
      "[]",
      "null",
      "true",
      "5",
      "\"x\"",
      "{}x",
      "{}{}",
      "[1,]",
      "{\"a\":1,}",
      R"({"a":1,"a":{"b":[]},"c":0,"a":[2]})",
      R"([0,-0,-1,1.5,-2.5e-3,1E5,1e300,5e-324,0.1,9007199254740993.0])",
      R"([9223372036854775807,9223372036854775808,-9223372036854775808,18446744073709551615])",
      R"([18446744073709551616,-9223372036854775809,123456789012345678901234567890])",
      R"([1e999])",
      R"([01])",
      R"([+1])",
      R"([.5])",
      R"([1.])",
      R"([NaN])",
      R"([-])",
      R"(["\u0041\u00e9\u4e2d\n\t\"\\\/\b\f\r"])",
      R"(["\ud83d\ude00"])",
      R"(["\uD83D\uDE00x"])",
      R"(["\ud800"])",
      R"(["\udc00"])",
      R"(["\ud800\u0041"])",
      R"(["\udc00\ud800"])",
      R"(["\u12"])",
      R"(["\x"])",
      R"(["\\ud800"])",
      "[\"\xff\"]",
      "[\"\xed\xa0\x80\"]",
      "[\"\xc0\x80\"]",
      "[\"\xe4\xb8\xad\"]",
      "[\"a\nb\"]",
      std::string("[\"a\0b\"]", 7),
      std::string("{}\0", 3),
      "\xef\xbb\xbf{}",
      "// x\n{}",
      nested(199),
      nested(200),
      nested(201),
      nested(1100),
      nested(100000)};
  return list;
}

TEST(JsonBody, IsReadAsByTheOneParser) {
  for (const std::string& body : bodies()) expect_same(body);
}

TEST(JsonBody, IsReadAsByTheOneParserWhateverIsBrokenInIt) {
  std::mt19937 random(7);
  const std::string signs = "{}[]\",:\\u0dD8e.-+ \n\xc3\xff";
  for (int i = 0; i < 20000; ++i) {
    std::string body = bodies()[random() % bodies().size()].substr(0, 300);
    for (int change = 0; change < 3 && !body.empty(); ++change) {
      body[random() % body.size()] = signs[random() % signs.size()];
    }
    expect_same(body);
  }
}

TEST(JsonBody, KeepsTheLastOfManyEqualKeys) {
  std::string body = "{";
  for (int i = 0; i < 200; ++i)
    body += "\"k" + std::to_string(i % 70) + "\":" + std::to_string(i) + ",";
  expect_same(body + "\"z\":null}");
}

}  // namespace
}  // namespace baton
