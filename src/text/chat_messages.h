// Makes the messages of a request what chat templates expect: tool-call arguments as objects,
// reasoning under both of its names. Names the message in errors.
#pragma once

#include "base/json.h"
#include "base/result.h"

namespace baton {

// Checks that `messages` is a list of objects with a role, and rewrites it:
//  - tool_calls[i].function.arguments: a JSON string becomes the object it holds, keys in order;
//    "" is {}. Anything but an object is an error.
//  - reasoning and reasoning_content: each is filled in from the other.
Result<Json> prepare_messages(Json messages);

}  // namespace baton
