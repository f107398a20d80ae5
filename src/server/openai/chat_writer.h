// The two forms of a chat answer: chat.completion.chunk events, and one chat.completion.
#pragma once

#include <memory>

#include "server/openai/answer_parts.h"

namespace baton {

// `prompt` for return_token_ids, else empty.
std::unique_ptr<AnswerWriter> make_chat_writer(const Service& service,
                                               AnswerHead head,
                                               const AnswerOptions& options,
                                               size_t choices,
                                               bool stream,
                                               std::vector<int32_t> prompt,
                                               Metrics& metrics);

}  // namespace baton
