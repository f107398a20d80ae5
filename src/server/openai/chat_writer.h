// The two forms of a chat answer: chat.completion.chunk events, and one chat.completion.
#pragma once

#include <memory>
#include <vector>

#include "server/openai/answer_parts.h"

namespace baton {

struct ChatAnswer {
  AnswerOptions options;
  size_t choices = 1;
  std::vector<int32_t> prompt;  // for return_token_ids; else empty
};

std::unique_ptr<AnswerWriter> make_chat_writer(Service& service,
                                               AnswerHead head,
                                               ChatAnswer answer,
                                               bool stream);

}  // namespace baton
