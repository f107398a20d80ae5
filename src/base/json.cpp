#include "base/json.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace baton {
namespace {

// Nesting is checked on the bytes, before the recursive parser sees them.
size_t nesting_depth(std::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view where, JsonLimits limits) {
  const std::string name(where);
  if (nesting_depth(text) > limits.max_depth) {
    return invalid_argument(name + ": JSON nested deeper than " + std::to_string(limits.max_depth) +
                            " levels");
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    std::string reason = e.what();
    if (const size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
    if (reason.size() > 160) reason.resize(160);
    return invalid_argument(name + ": not valid JSON: " + reason);
  }
}

Result<std::string> read_file(const std::string& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    return invalid_argument(path + ": expected a file, got a folder");
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const int error = errno;
    const std::string message = path + ": cannot open: " + std::strerror(error);
    return error == ENOENT ? not_found(message) : invalid_argument(message);
  }
  std::ostringstream out;
  out << in.rdbuf();
  if (in.bad()) return invalid_argument(path + ": cannot read");
  return std::move(out).str();
}

Result<Json> read_json_file(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text) return text.error();
  return parse_json(*text, path);
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_json_escaped(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  size_t plain = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += "\\u00";
        out += kHex[c >> 4];
        out += kHex[c & 15];
    }
  }
  out.append(text, plain, text.size() - plain);
}

}  // namespace baton
