// A rendered conversation that knows which of its bytes the template wrote and which came with
// the request, so that "<|system|>" in a user's message, a tool's result or a tool's description
// is encoded as ordinary text, whatever the template did with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/text_range.h"
#include "text/tokenizer.h"

namespace baton {

struct ChatPrompt {
  std::string text;
  std::vector<TextRange> untrusted;  // of text
};

// Without the tokenizer's prefix: templates write it themselves.
inline std::vector<int32_t> encode_chat_prompt(const Tokenizer& tokenizer,
                                               const ChatPrompt& prompt) {
  return tokenizer.encode_marked(prompt.text, prompt.untrusted);
}

}  // namespace baton
