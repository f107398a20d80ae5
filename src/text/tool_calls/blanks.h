// Whitespace as the call formats have it between their parts.
#pragma once

#include <string_view>

namespace baton {

inline constexpr std::string_view kBlanks = " \t\r\n";

inline bool is_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == std::string_view::npos;
}

inline std::string_view without_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace baton
