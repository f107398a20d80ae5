// The pre_tokenizer of tokenizer.json: steps that cut a text into the pieces which byte pair
// encoding treats one by one. Immutable; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "text/split_pattern.h"

namespace baton {

class PreTokenizer {
 public:
  // Matches are delimiters (the gaps are, when inverted). A delimiter becomes a piece of its own
  // (isolated) or is dropped; what lies between is a piece in both.
  struct Split {
    SplitPattern pattern;
    bool invert = false;
    bool drop_delimiters = false;
  };

  using PieceSink = std::function<void(std::string_view piece)>;

  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<Split> steps) : steps_(std::move(steps)) {}

  // Calls `sink` with the non-empty pieces of `text` (valid UTF-8) from left to right. Each step
  // cuts the pieces of the one before, and sees nothing beyond the piece it cuts.
  void split(std::string_view text, SplitPattern::Scratch& scratch, const PieceSink& sink) const {
    apply(0, text, scratch, sink);
  }

 private:
  void apply(size_t step,
             std::string_view text,
             SplitPattern::Scratch& scratch,
             const PieceSink& sink) const;

  std::vector<Split> steps_;
};

// The pattern that ByteLevel uses by itself when use_regex is true (GPT-2).
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace baton
