// UTF-8 on byte strings that may be broken: one character at a time, valid runs, incomplete
// tails, and replacement by U+FFFD. Well-formedness is table 3-7 of the Unicode standard
// (no surrogates, no overlong forms, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace baton {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

// What stands at a position: a character, bytes that can never become one, or the beginning
// of a character that the text ends in.
struct Utf8Char {
  enum class Kind { kValid, kInvalid, kIncomplete };
  Kind kind = Kind::kInvalid;
  char32_t value = kReplacementCharacter;  // the code point when kValid
  size_t length = 0;                       // bytes; for the other kinds the maximal subpart
};

// `position` < text.size().
Utf8Char decode_utf8(std::string_view text, size_t position);

// Bytes before the first one that is not part of a complete, valid character.
size_t valid_utf8_prefix(std::string_view text);

// Bytes at the end (0 to 3) that begin a character which more bytes could complete.
size_t incomplete_utf8_tail(std::string_view text);

void append_utf8(std::string& out, char32_t value);

// Each maximal subpart of a broken character becomes one U+FFFD (the W3C and Python rule).
std::string replace_invalid_utf8(std::string_view text);

}  // namespace baton
