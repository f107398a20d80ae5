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

// Python's str.isprintable: not a control, format, private, unassigned or separator character,
// except for the space.
bool is_printable(char32_t c);

// One code point to one: enough for everything but a few ligatures and the German sharp s.
char32_t to_upper(char32_t c);
char32_t to_lower(char32_t c);
char32_t to_title(char32_t c);

}  // namespace baton
