#include "server/json_text.h"

#include <charconv>
#include <cmath>

#include "base/json.h"
#include "text/utf8.h"

namespace baton {
namespace {

template <typename T>
void append_with_commas(std::string& out, const T& values) {
  out += '[';
  bool first = true;
  for (const auto value : values) {
    if (!first) out += ',';
    first = false;
    append_number(out, static_cast<int64_t>(value));
  }
  out += ']';
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  if (valid_utf8_prefix(text) == text.size()) {
    append_json_escaped(out, text);
  } else {
    append_json_escaped(out, replace_invalid_utf8(text));
  }
  out += '"';
}

void append_number(std::string& out, int64_t value) {
  char text[24];
  const auto result = std::to_chars(text, text + sizeof text, value);
  out.append(text, result.ptr);
}

void append_logprob(std::string& out, float value) {
  if (!std::isfinite(value)) {
    out += "-9999.0";
    return;
  }
  char text[32];
  const auto result = std::to_chars(text, text + sizeof text, value);
  const std::string_view number(text, static_cast<size_t>(result.ptr - text));
  out += number;
  if (number.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

void append_ids(std::string& out, std::span<const int32_t> ids) {
  append_with_commas(out, ids);
}

}  // namespace baton
