// The same ids and texts as Hugging Face tokenizers, for the pipelines of five model families
// (testdata/tokenizer, made by tools/oracle/make_tokenizers.py).
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "text/tokenizer.h"

namespace baton {
namespace {

std::string path_of(const std::string& family) {
  return family == "tiny" ? "testdata/tiny-tokenizer/tokenizer.json"
                          : "testdata/tokenizer/" + family + ".json";
}

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, EncodesAndDecodesAsTheReference) {
  const Result<Json> file = read_json_file("testdata/tokenizer/cases.json");
  ASSERT_TRUE(file) << file.error().message;
  const auto tokenizer = Tokenizer::load_file(path_of(GetParam()));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const Tokenizer& t = **tokenizer;
  const Json& texts = (*file)["texts"];
  const Json& golden = (*file)["families"][GetParam()];
  ASSERT_GT(texts.size(), 100U);
  const std::vector<int32_t> prefix(t.prefix().begin(), t.prefix().end());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    const auto expected = golden["ids"][i].get<std::vector<int32_t>>();
    EXPECT_EQ(t.encode(text, SpecialTokens::kRecognise), expected) << text;

    const Json& with_special = golden["ids_with_special"][i];
    // A prefix that is there already is not added again, unlike in the reference.
    const bool has_prefix = expected.size() >= prefix.size() &&
                            std::equal(prefix.begin(), prefix.end(), expected.begin());
    const auto expected_with_prefix =
        with_special.is_null() || has_prefix ? expected : with_special.get<std::vector<int32_t>>();
    EXPECT_EQ(t.encode(text, SpecialTokens::kRecognise, Prefix::kAdd), expected_with_prefix)
        << text;

    const Json& decoded = golden["decoded"][i];
    const std::string whole = decoded.is_null() ? text : decoded.get<std::string>();
    EXPECT_EQ(t.decode(expected, /*skip_special=*/false), whole);
    const Json& skipped = golden["decoded_skip_special"][i];
    EXPECT_EQ(t.decode(expected, /*skip_special=*/true),
              skipped.is_null() ? whole : skipped.get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Families,
                         TokenizerGolden,
                         testing::Values("tiny", "glm", "qwen3", "qwen3.5", "deepseek-v3", "flags"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase_if(name, [](char c) { return c == '.' || c == '-'; });
                           return name;
                         });

}  // namespace
}  // namespace baton
