// Turns the token ids of one sequence, as they come, into text deltas that are always valid
// UTF-8. One per sequence, used by the thread that writes its stream. It has never seen the
// prompt, so it cannot repeat it.
//
// For every way to cut the ids into pushes: all deltas joined == Tokenizer::decode of all ids.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace baton {

struct DetokenizerOptions {
  // Leaves out added tokens marked special (<|user|>, eos). Added tokens that are not, such as
  // GLM's <think> and <tool_call>, stay: parsers of reasoning and tool calls need them.
  bool skip_special_tokens = true;
};

class Detokenizer {
 public:
  // `tokenizer` must outlive this.
  explicit Detokenizer(const Tokenizer& tokenizer, DetokenizerOptions options = {})
      : tokenizer_(&tokenizer), options_(options) {}

  // The text that became complete. Bytes that begin a character are held back until the next
  // token completes or breaks it; broken ones come out as U+FFFD.
  std::string push(int32_t id) { return push(std::span<const int32_t>(&id, 1)); }
  std::string push(std::span<const int32_t> ids);

  // The end of the sequence: what was held back, as one U+FFFD.
  std::string finish();

  // Bytes held back, 0 to 3.
  size_t held_back() const { return pending_.size(); }

 private:
  const Tokenizer* tokenizer_;
  DetokenizerOptions options_;
  std::string pending_;  // the beginning of one character
};

}  // namespace baton
