// The conversation of a chat request: checked, and in the shape chat templates expect.
#pragma once

#include "server/openai/fields.h"
#include "server/service.h"

namespace baton {

// Reads messages, tools, tool_choice and template options. Failures are in fields.error().
// `text_bytes`: of all contents, for an early size check.
Conversation read_chat_prompt(Fields& fields, size_t& text_bytes);

}  // namespace baton
