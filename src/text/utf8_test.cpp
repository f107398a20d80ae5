#include "text/utf8.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(Utf8, ReplacesEachMaximalSubpartOnce) {
  EXPECT_EQ(replace_invalid_utf8("a\xE4\xB8"
                                 "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(replace_invalid_utf8("\xE4\xB8"), "\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8("\xFF\xFE"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  // A surrogate, an overlong form and a value past U+10FFFF have no valid subpart of two bytes.
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80").size(), 9U);
  EXPECT_EQ(replace_invalid_utf8("\xC0\x80").size(), 6U);
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80").size(), 12U);
}

TEST(Utf8, KeepsEveryValidCharacter) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Char decoded = decode_utf8(text, 0);
    ASSERT_EQ(decoded.kind, Utf8Char::Kind::kValid);
    ASSERT_EQ(decoded.value, c);
    ASSERT_EQ(decoded.length, text.size());
    ASSERT_EQ(valid_utf8_prefix(text), text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(incomplete_utf8_tail(text.substr(0, cut)), cut);
    }
  }
}

TEST(Utf8, OnlyWhatCanStillBecomeACharacterIsIncomplete) {
  EXPECT_EQ(incomplete_utf8_tail("a\xF0\x9F\xA6"), 3U);
  EXPECT_EQ(incomplete_utf8_tail("a\xE4"), 1U);
  EXPECT_EQ(incomplete_utf8_tail("a"), 0U);
  EXPECT_EQ(incomplete_utf8_tail(""), 0U);
  EXPECT_EQ(incomplete_utf8_tail("\xED\xA0"), 0U);
  EXPECT_EQ(incomplete_utf8_tail("\x80\x80\x80\x80"), 0U);
  EXPECT_EQ(incomplete_utf8_tail("\xFF"), 0U);
}

}  // namespace
}  // namespace baton
