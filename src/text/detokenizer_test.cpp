#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/tiny_tokenizer.h"
#include "text/utf8.h"

namespace baton {
namespace {

using Ids = std::vector<int32_t>;

Ids bytes_as_ids(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

TEST(Detokenizer, HoldsBackTheBeginningOfACharacter) {
  const auto tokenizer = tiny_tokenizer();
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.push('a'), "a");
  EXPECT_EQ(detokenizer.push(0xE4), "");
  EXPECT_EQ(detokenizer.push(0xB8), "");
  EXPECT_EQ(detokenizer.held_back(), 2U);
  EXPECT_EQ(detokenizer.push(0xAD), "\xE4\xB8\xAD");
  EXPECT_EQ(detokenizer.finish(), "");
}

// A completed character of three bytes is as long as U+FFFD: lengths cannot tell them apart.
TEST(Detokenizer, DropsNoCharacterWhenBytesComeOneByOne) {
  const auto tokenizer = tiny_tokenizer();
  Detokenizer detokenizer(*tokenizer);
  const std::string text = "前中后🦀é";
  std::string streamed;
  for (const int32_t id : bytes_as_ids(text)) streamed += detokenizer.push(id);
  EXPECT_EQ(streamed, text);
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, ACutCharacterIsOneReplacementAtTheEnd) {
  const auto tokenizer = tiny_tokenizer();
  for (const std::string cut : {"\xE4", "\xE4\xB8", "\xF0\x9F\xA6"}) {
    Detokenizer detokenizer(*tokenizer);
    std::string streamed;
    for (const int32_t id : bytes_as_ids("ok" + cut)) streamed += detokenizer.push(id);
    EXPECT_EQ(streamed, "ok");
    EXPECT_EQ(detokenizer.finish(), kReplacementUtf8);
    EXPECT_EQ(detokenizer.finish(), "");
  }
}

// The prompt may end inside a character: its other bytes are known only to the prompt.
TEST(Detokenizer, ContinuationBytesOfThePromptsLastCharacterDoNotBringThePromptBack) {
  const auto tokenizer = tiny_tokenizer();
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.push(0xB6) + detokenizer.push('x'), std::string(kReplacementUtf8) + "x");
}

TEST(Detokenizer, KeepsAddedTokensThatAreNotSpecial) {
  const auto tokenizer = tiny_tokenizer();
  const Ids ids = {1007, 'a', 1008, 1009, 1004, 1002};
  EXPECT_EQ(Detokenizer(*tokenizer).push(ids), "<think>a</think><tool_call>");
  EXPECT_EQ(Detokenizer(*tokenizer, {.skip_special_tokens = false}).push(ids),
            "<think>a</think><tool_call><|user|><|endoftext|>");
}

TEST(Detokenizer, IdsBeyondTheVocabularyAreEmpty) {
  const auto tokenizer = tiny_tokenizer();
  EXPECT_EQ(Detokenizer(*tokenizer).push(Ids{'a', 154879, 'b'}), "ab");
}

TEST(Detokenizer, EveryCutGivesTheTextOfTheWhole) {
  const auto tokenizer = tiny_tokenizer();
  std::mt19937 random(11);
  const Ids pool = {
      'a', ' ', 0xE4, 0xB8, 0xAD, 265, 0xF0, 0x9F, 0xA6, 0x80, 0xC3, 0xA9, 0xFF, 1004, 1007};
  for (int round = 0; round < 3000; ++round) {
    Ids ids(random() % 24);
    for (int32_t& id : ids) id = pool[random() % pool.size()];
    Detokenizer detokenizer(*tokenizer);
    std::string streamed;
    for (size_t i = 0; i < ids.size();) {
      const size_t count = std::min<size_t>(1 + random() % 4, ids.size() - i);
      const std::string delta = detokenizer.push(std::span(ids).subspan(i, count));
      EXPECT_EQ(valid_utf8_prefix(delta), delta.size());
      streamed += delta;
      i += count;
    }
    streamed += detokenizer.finish();
    EXPECT_EQ(streamed, tokenizer->decode(ids, /*skip_special=*/true));
  }
}

}  // namespace
}  // namespace baton
