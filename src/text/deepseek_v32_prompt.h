// The prompt of DeepSeek-V3.2, which comes without a Jinja template: its format is given by the
// encoder published with the model (huggingface.co/deepseek-ai/DeepSeek-V3.2, encoding/), whose
// rules and wording of the tools' section are data that the model was trained on. Pure function.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "text/chat_template.h"

namespace baton {

// `messages`: those of `inputs`, prepared (chat_messages.h). The kwargs `thinking` or
// `enable_thinking` turn reasoning on; without them it is off. What the format says:
//  - Tools stand in the first message if that is of the system or a developer, else before all.
//  - After the last user's or developer's message <think> opens reasoning, if it is on. Reasoning
//    of the turns before is dropped, and </think> stands in its place; within the last turn it is
//    kept between calls and their results.
//  - A developer's message is a user's, behind a heading.
// kInvalidArgument, with the message, for roles it does not know and for results without a call.
Result<ChatPrompt> deepseek_v32_prompt(const ChatTemplateInputs& inputs, const Json& messages);

}  // namespace baton
