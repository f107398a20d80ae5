// The tags by which GLM-style models structure what they write: reasoning and tool calls
// (models.md F.1, F.4). Most tokenizers have each tag as one token; then only that token is the
// tag, and the same characters written as ordinary tokens are text. TagScanner finds tags in
// text for tokenizers that lack them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace baton {

enum class OutputTag : uint8_t {
  kThinkOpen,
  kThinkClose,
  kCallOpen,
  kCallClose,
  kKeyOpen,
  kKeyClose,
  kValueOpen,
  kValueClose,
};

constexpr size_t kOutputTagCount = 8;
constexpr std::array<std::string_view, kOutputTagCount> kOutputTagTexts{
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
};

constexpr std::string_view tag_text(OutputTag tag) {
  return kOutputTagTexts[static_cast<size_t>(tag)];
}

// Splits text that comes in arbitrary pieces into text and tags, in order. Holds back only a
// suffix that could be the beginning of a tag; whole characters, since tags begin with '<'.
class TagScanner {
 public:
  using OnText = std::function<void(std::string_view)>;
  using OnTag = std::function<void(OutputTag)>;

  void push(std::string_view text, const OnText& on_text, const OnTag& on_tag);
  void finish(const OnText& on_text);

 private:
  std::string held_;
};

}  // namespace baton
