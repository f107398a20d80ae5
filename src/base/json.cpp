#include "base/json.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/file.h"
#include "base/json_builder.h"

namespace baton {
namespace {

// Far above any configuration, tokenizer or index of shards.
constexpr int64_t kMaxTextFileBytes = int64_t{128} << 20U;

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view where, JsonLimits limits) {
  const std::string name(where);
  JsonBuilder builder(limits.max_depth);
  if (Json::sax_parse(text, &builder)) return builder.take();
  if (builder.too_deep()) {
    return invalid_argument(name + ": JSON nested deeper than " + std::to_string(limits.max_depth) +
                            " levels");
  }
  std::string reason = builder.problem();
  if (const size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
  if (reason.size() > 160) reason.resize(160);
  return invalid_argument(name + ": not valid JSON: " + reason);
}

Result<std::string> read_file(const std::string& path) {
  const Result<OpenFile> file = OpenFile::open(path);
  if (!file) return file.error();
  if (file->bytes() > kMaxTextFileBytes) {
    return invalid_argument(path + ": expected at most " + std::to_string(kMaxTextFileBytes) +
                            " bytes, got " + std::to_string(file->bytes()));
  }
  std::string text(static_cast<size_t>(file->bytes()), '\0');
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t got = ::read(file->descriptor(), text.data() + at, text.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return invalid_argument(path + ": cannot read: " + std::strerror(errno));
    if (got == 0) break;  // became shorter since
    at += static_cast<size_t>(got);
  }
  text.resize(at);
  return text;
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
