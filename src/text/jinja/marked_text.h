// Text that remembers which of its bytes came from outside: what a user typed or a tool
// returned, as opposed to what the template wrote. All string operations of the template
// language are made of append, slice and transform, which keep the marks, so that no
// combination of them can turn a user's "<|system|>" into the template's.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.h"

namespace baton::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(std::string bytes, bool untrusted = false);

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // The bytes that came from outside.
  const std::vector<TextRange>& untrusted() const { return untrusted_; }

  void append(std::string_view trusted) { bytes_.append(trusted); }
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  // `begin` <= `end` <= other.size(). `other` must not be this object.
  void append(const MarkedText& other, size_t begin, size_t end);

  MarkedText slice(size_t begin, size_t end) const;

  // Applies `map` to each stretch of equal origin. For maps that work character by character.
  MarkedText transform(const std::function<std::string(std::string_view)>& map) const;

  std::string take_bytes() && { return std::move(bytes_); }

 private:
  void mark(size_t begin, size_t end);

  std::string bytes_;
  std::vector<TextRange> untrusted_;
};

}  // namespace baton::jinja
