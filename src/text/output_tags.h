// The tags by which a model structures what it writes: reasoning, and the calls of its format
// (models.md F). Where the vocabulary has a tag as one token, only that token is the tag, and the
// same characters written as ordinary tokens are text. TagScanner finds the other tags in text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

using OutputTag = size_t;  // index into OutputTags::texts

inline constexpr OutputTag kThinkOpen = 0;
inline constexpr OutputTag kThinkClose = 1;
inline constexpr OutputTag kFirstCallTag = 2;  // the tags of the call format, in its order

// The tags of a model. Every text begins with '<' and is valid UTF-8.
struct OutputTags {
  std::vector<std::string_view> texts = {"<think>", "</think>"};
  std::map<int32_t, OutputTag> tokens;   // the tags that are tokens
  std::map<int32_t, std::string> parts;  // special tokens inside a tag (DSML): text all the same

  bool is_token(OutputTag tag) const;
};

// Splits text that comes in arbitrary pieces into text and tags, in order. Holds back only a
// suffix that could be the beginning of a tag; whole characters, since tags begin with '<'.
class TagScanner {
 public:
  using OnText = std::function<void(std::string_view)>;
  using OnTag = std::function<void(OutputTag)>;

  // Looks for the tags that are no tokens.
  explicit TagScanner(const OutputTags& tags);

  void push(std::string_view text, const OnText& on_text, const OnTag& on_tag);
  void finish(const OnText& on_text);

 private:
  struct Searched {
    OutputTag tag;
    std::string_view text;
  };

  const Searched* tag_at(std::string_view text) const;
  bool could_become_tag(std::string_view text) const;

  std::vector<Searched> searched_;
  std::string held_;
};

}  // namespace baton
