// The added_tokens of tokenizer.json: texts that are one token wherever they stand, found before
// any other step. Longest match first, left to right. Immutable; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.h"

namespace baton {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;      // left out by skip_special_tokens
  bool normalized = false;   // looked for after normalisation
  bool lstrip = false;       // swallows whitespace on its left
  bool rstrip = false;       // ... and on its right
  bool single_word = false;  // not beside a word character
};

class AddedTokenMatcher {
 public:
  // A stretch of text: a token, or (id -1) text between tokens.
  using SegmentSink = std::function<void(std::string_view segment, int32_t id)>;

  AddedTokenMatcher() = default;
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // Calls `sink` for the segments of `text` in order. Text segments are never empty. Nothing that
  // touches an `untrusted` range is a token: what a user typed stays text.
  void split(std::string_view text,
             std::span<const TextRange> untrusted,
             const SegmentSink& sink) const;

  bool empty() const { return tokens_.empty(); }

 private:
  // A trie node: children are a list, since few nodes branch (the root has a table).
  struct Edge {
    char byte;
    uint32_t node;
  };
  struct Node {
    std::vector<Edge> edges;
    int32_t token = -1;  // index into tokens_ of the content that ends here
  };

  const AddedToken* longest_at(std::string_view text, size_t position) const;
  void insert(const std::string& content, int32_t token);

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  bool begins_[256] = {};  // bytes some content begins with
};

}  // namespace baton
