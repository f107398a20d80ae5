// How the server gets from a conversation to token ids: the model's chat template, and encoding
// that keeps text of the request from becoming control tokens.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/service.h"
#include "text/tokenizer.h"

namespace baton {

// Empty when the model has no template. `template_file` replaces the model's own. `tokenizer`
// must outlive the result.
Result<std::function<Result<std::vector<int32_t>>(const Conversation&)>> make_chat_prompt_source(
    const std::string& model_folder, const std::string& template_file, const Tokenizer& tokenizer);

}  // namespace baton
