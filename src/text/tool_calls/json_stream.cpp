#include "text/tool_calls/json_stream.h"

#include <string_view>

#include "base/json.h"
#include "text/tool_calls/blanks.h"

namespace baton {
namespace {

constexpr size_t kLongestScalar = 400;  // a double takes 25

bool is_one_of(std::string_view set, char c) {
  return set.find(c) != std::string_view::npos;
}

}  // namespace

bool JsonStream::push(char c) {
  if (in_string_) return push_in_string(c);
  if (!scalar_.empty()) {
    if (!is_one_of(",]}", c) && !is_one_of(kBlanks, c)) {
      scalar_ += c;
      return scalar_.size() <= kLongestScalar;
    }
    if (!end_scalar()) return false;
  }
  return is_one_of(kBlanks, c) || push_structure(c);
}

bool JsonStream::push_in_string(char c) {
  if (hex_digits_left_ > 0) {
    --hex_digits_left_;
    return is_one_of("0123456789abcdefABCDEF", c);
  }
  if (escaped_) {
    escaped_ = false;
    if (c == 'u') hex_digits_left_ = 4;
    return is_one_of("\"\\/bfnrtu", c);
  }
  if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    in_string_ = false;
    expect_ = expect_ == Expect::kKey ? Expect::kColon : Expect::kNext;
  }
  return static_cast<unsigned char>(c) >= 0x20;  // control characters must be escaped
}

bool JsonStream::push_structure(char c) {
  switch (expect_) {
    case Expect::kStart:
      return c == '{' && open(c, Expect::kFirstKey);
    case Expect::kFirstKey:
      if (c == '}') return close('{');
      [[fallthrough]];
    case Expect::kKey:
      expect_ = Expect::kKey;
      in_string_ = true;
      return c == '"';
    case Expect::kColon:
      expect_ = Expect::kValue;
      return c == ':';
    case Expect::kFirstItem:
      if (c == ']') return close('[');
      [[fallthrough]];
    case Expect::kValue:
      return begin_value(c);
    case Expect::kNext:
      if (c == '}') return close('{');
      if (c == ']') return close('[');
      expect_ = open_.back() == '{' ? Expect::kKey : Expect::kValue;
      return c == ',';
    case Expect::kEnd:
      return false;
  }
  return false;
}

bool JsonStream::begin_value(char c) {
  if (c == '{') return open(c, Expect::kFirstKey);
  if (c == '[') return open(c, Expect::kFirstItem);
  expect_ = Expect::kNext;
  if (c == '"') {
    in_string_ = true;
  } else {
    scalar_ = c;
  }
  return is_one_of("\"-0123456789tfn", c);
}

bool JsonStream::open(char bracket, Expect next) {
  open_ += bracket;
  expect_ = next;
  return open_.size() <= JsonLimits{}.max_depth;
}

bool JsonStream::close(char bracket) {
  if (open_.back() != bracket) return false;
  open_.pop_back();
  expect_ = open_.empty() ? Expect::kEnd : Expect::kNext;
  return true;
}

bool JsonStream::end_scalar() {
  const bool valid = Json::accept(scalar_);
  scalar_.clear();
  return valid;
}

}  // namespace baton
