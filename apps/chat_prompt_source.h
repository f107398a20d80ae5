// How the server gets from a conversation to token ids: the model's chat template, and encoding
// that keeps text of the request from becoming control tokens.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/service.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace baton {

// Null when the model has no template. `template_file` replaces the model's own.
Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const std::string& model_folder,
                                                               const std::string& template_file);

// Empty without a template. `tokenizer` must outlive the result.
std::function<Result<std::vector<int32_t>>(const Conversation&)> make_chat_prompt_source(
    std::shared_ptr<const ChatTemplate> chat_template, const Tokenizer& tokenizer);

}  // namespace baton
