#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/check.h"

namespace baton {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool within(utf8proc_category_t value, utf8proc_category_t first, utf8proc_category_t last) {
  return value >= first && value <= last;
}

utf8proc_option_t options_of(NormalForm form) {
  const int compatible = UTF8PROC_STABLE | UTF8PROC_COMPAT;
  switch (form) {
    case NormalForm::kNfc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    case NormalForm::kNfd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case NormalForm::kNfkc:
      return static_cast<utf8proc_option_t>(compatible | UTF8PROC_COMPOSE);
    case NormalForm::kNfkd:
      return static_cast<utf8proc_option_t>(compatible | UTF8PROC_DECOMPOSE);
  }
  return UTF8PROC_STABLE;
}

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  // ASCII is its own normal form in all four.
  if (std::all_of(
          text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; })) {
    return std::string(text);
  }
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()),
                                             &mapped,
                                             options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  BATON_CHECK(size >= 0, utf8proc_errmsg(size), text.size());
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(size)};
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || within(category(c), UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool is_word_character(char32_t c) {
  const utf8proc_category_t value = category(c);
  return is_letter(c) || is_mark(c) || value == UTF8PROC_CATEGORY_ND ||
         value == UTF8PROC_CATEGORY_NL || value == UTF8PROC_CATEGORY_PC || c == 0x200C ||
         c == 0x200D;
}

bool is_letter(char32_t c) {
  return within(category(c), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}
bool is_mark(char32_t c) {
  return within(category(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}
bool is_number(char32_t c) {
  return within(category(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  const utf8proc_category_t value = category(c);
  return value != UTF8PROC_CATEGORY_CN &&
         !within(value, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_CO);
}

char32_t to_upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t to_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
char32_t to_title(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace baton
