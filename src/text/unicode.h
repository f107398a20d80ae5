// Unicode properties and normal forms, from utf8proc (Debian libutf8proc, Unicode 15).
#pragma once

#include <string>
#include <string_view>

namespace baton {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Valid UTF-8 only.
std::string normalize(std::string_view text, NormalForm form);

bool is_white_space(char32_t c);     // the property White_Space
bool is_word_character(char32_t c);  // letters, marks, digits, connectors: \w of Unicode regexes

bool is_letter(char32_t c);  // general category L*
bool is_mark(char32_t c);    // M*
bool is_number(char32_t c);  // N*

}  // namespace baton
