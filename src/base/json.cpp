#include "base/json.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/file.h"

namespace baton {
namespace {

// Far above any configuration, tokenizer or index of shards.
constexpr int64_t kMaxTextFileBytes = int64_t{128} << 20U;

// Builds a value from the parser's events. The library's own way looks up every key among all
// keys before it: a body of 100,000 different names would hold a thread for minutes.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(size_t max_depth) : max_depth_(max_depth) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON text
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    open_.back().slot = &member(open_.back(), std::move(name));
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    problem_ = e.what();
    return false;
  }

  Json take() { return std::move(root_); }
  bool too_deep() const { return too_deep_; }
  const std::string& problem() const { return problem_; }

 private:
  struct Open {
    Json* value;
    Json* slot = nullptr;                                 // of an object: where the next value goes
    std::unordered_map<std::string, size_t> places = {};  // of a large object's keys
  };
  static constexpr size_t kLargeObject = 32;  // searched one by one up to here

  static Json& member(Open& object, std::string&& name) {
    auto& members = object.value->get_ref<Json::object_t&>();
    if (members.size() < kLargeObject) return members[name];
    if (object.places.empty()) {
      for (size_t i = 0; i < members.size(); ++i) object.places.emplace(members.data()[i].first, i);
    }
    const auto [place, is_new] = object.places.emplace(name, members.size());
    if (is_new) members.emplace_back(std::move(name), nullptr);
    return members.data()[place->second].second;
  }

  template <typename T>
  Json& put(T&& value) {
    if (open_.empty()) return root_ = std::forward<T>(value);
    Open& parent = open_.back();
    if (parent.slot != nullptr) return *parent.slot = std::forward<T>(value);
    return parent.value->get_ref<Json::array_t&>().emplace_back(std::forward<T>(value));
  }

  template <typename T>
  bool add(T&& value) {
    put(std::forward<T>(value));
    return true;
  }

  bool open(Json&& empty) {
    too_deep_ = open_.size() == max_depth_;
    if (too_deep_) return false;
    open_.push_back({&put(std::move(empty))});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const size_t max_depth_;
  Json root_;
  std::vector<Open> open_;
  bool too_deep_ = false;
  std::string problem_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view where, JsonLimits limits) {
  const std::string name(where);
  Builder builder(limits.max_depth);
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
