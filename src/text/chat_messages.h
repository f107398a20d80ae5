// Makes the messages of a request what a chat template expects: tool-call arguments as objects or
// as text, reasoning under both of its names, known roles. Names the message in errors.
#pragma once

#include "base/json.h"
#include "base/result.h"

namespace baton {

// How a template wants the messages.
struct MessageForm {
  bool arguments_as_text = false;
  bool null_content = false;         // beside calls, where the content is empty
  bool developer_as_system = false;  // OpenAI's models take the two for one
};

// Checks that `messages` is a list of objects with a role, and rewrites it:
//  - tool_calls[i].function.arguments: a JSON string becomes the object it holds, keys in order;
//    "" is {}. Anything but an object is an error. Templates that want text get the string as it
//    came, an object as Python's json.dumps prints it.
//  - reasoning and reasoning_content: each is filled in from the other.
Result<Json> prepare_messages(Json messages, MessageForm form = {});

}  // namespace baton
