#include "text/output_choice.h"

#include <gtest/gtest.h>

#include "text/tiny_tokenizer.h"

namespace baton {
namespace {

std::unique_ptr<Tokenizer> tokenizer_with(std::vector<std::string> tokens) {
  Json file = tiny_tokenizer_json();
  int32_t id = 1013;
  for (const std::string& token : tokens) {
    file["added_tokens"].push_back(added_token_json(id++, token, /*special=*/true));
  }
  return tiny_tokenizer(file);
}

std::string chosen(const Tokenizer& tokenizer, std::string_view prompt_source) {
  const ToolCallFormat* format = choose_tool_call_format(tokenizer, prompt_source);
  return format == nullptr ? "none" : std::string(format->name);
}

const std::vector<std::string> kDeepSeek = {"<｜tool▁calls▁begin｜>",
                                            "<｜tool▁calls▁end｜>",
                                            "<｜tool▁call▁begin｜>",
                                            "<｜tool▁sep｜>",
                                            "<｜tool▁call▁end｜>"};

TEST(OutputChoice, ThePromptChoosesAmongTheFormatsOfTheVocabulary) {  // NU-02
  const auto qwen = tokenizer_with({});
  EXPECT_EQ(chosen(*qwen, "... <tool_call> ..."), "hermes");
  EXPECT_EQ(chosen(*qwen, "... <tool_call>\n<function=f> ..."), "qwen3_coder");
  const auto glm = tokenizer_with({"<arg_key>", "</arg_value>"});
  EXPECT_EQ(chosen(*glm, "<tool_call>name<arg_key>"), "glm47");
  const auto deepseek = tokenizer_with(kDeepSeek);
  EXPECT_EQ(chosen(*deepseek, "<｜tool▁sep｜>name\n```json"), "deepseek_v3");
  EXPECT_EQ(chosen(*deepseek, "<｜tool▁sep｜>{"), "deepseek_v31");
  // A prompt that asks for what the vocabulary lacks does not count.
  EXPECT_EQ(chosen(*glm, "<｜DSML｜function_calls>"), "glm47");
}

TEST(OutputChoice, WithoutAHintTheVocabularyChooses) {
  EXPECT_EQ(chosen(*tokenizer_with({"<arg_key>", "</arg_value>"}), ""), "glm47");
  EXPECT_EQ(chosen(*tokenizer_with(kDeepSeek), ""), "deepseek_v3");
  EXPECT_EQ(chosen(*tokenizer_with({"｜DSML｜"}), ""), "deepseek_v32");
  Json file = tiny_tokenizer_json();
  file["added_tokens"].erase(file["added_tokens"].size() - 4);  // <tool_call>
  EXPECT_EQ(chosen(*tiny_tokenizer(file), "<tool_call>"), "none");
}

TEST(OutputChoice, TagsAreTokensWhereTheVocabularyHasThem) {
  const auto tokenizer = tokenizer_with({"｜DSML｜"});
  const OutputTags hermes = output_tags_of(*tokenizer, find_tool_call_format("hermes"));
  EXPECT_TRUE(hermes.is_token(kThinkOpen) && hermes.is_token(kThinkClose));
  EXPECT_TRUE(hermes.is_token(kFirstCallTag) && hermes.is_token(kFirstCallTag + 1));
  EXPECT_TRUE(hermes.parts.empty());
  // Special, and yet part of what has to be read.
  const OutputTags dsml = output_tags_of(*tokenizer, find_tool_call_format("deepseek_v32"));
  EXPECT_FALSE(dsml.is_token(kFirstCallTag));
  EXPECT_EQ(dsml.parts, (std::map<int32_t, std::string>{{1013, "｜DSML｜"}}));
  EXPECT_EQ(output_tags_of(*tokenizer, nullptr).texts.size(), 2U);
}

TEST(OutputChoice, ThePromptSaysWhetherReasoningIsOpen) {
  const auto check = [](const Tokenizer& tokenizer) {
    const OutputTags tags = output_tags_of(tokenizer, nullptr);
    const auto opens = [&](const char* text) {
      return ends_in_reasoning(tokenizer, tags, tokenizer.encode(text, SpecialTokens::kRecognise));
    };
    EXPECT_TRUE(opens("hello<think>"));
    EXPECT_TRUE(opens("hello<think>\n"));  // DeepSeek-R1
    EXPECT_FALSE(opens("hello<think>\n\n</think>\n\n"));
    EXPECT_FALSE(opens("hello"));
    EXPECT_FALSE(opens(""));
  };
  check(*tiny_tokenizer());
  Json file = tiny_tokenizer_json();
  auto& added = file["added_tokens"];
  for (int i = 0; i < 2; ++i) added.erase(added.size() - 6);  // <think>, </think>
  check(*tiny_tokenizer(file));
}

}  // namespace
}  // namespace baton
