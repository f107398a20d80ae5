// The two forms of a text completion: text_completion events, and one text_completion.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/openai/answer_parts.h"

namespace baton {

struct CompletionPrompt {
  std::string text;          // as echo shows it; empty without echo
  std::vector<int32_t> ids;  // for echoed logprobs and return_token_ids; else empty
  size_t hidden = 0;         // of ids: a prefix that the text does not have
};

struct CompletionAnswer {
  AnswerOptions options;
  bool echo = false;
  bool skip_special_tokens = true;
  std::vector<CompletionPrompt> prompts;  // one per choice
};

std::unique_ptr<AnswerWriter> make_completion_writer(const Tokenizer& tokenizer,
                                                     AnswerHead head,
                                                     CompletionAnswer answer,
                                                     bool stream);

}  // namespace baton
