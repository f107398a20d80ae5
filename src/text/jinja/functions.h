// The functions that every template may call: Jinja2's range, dict and namespace, and
// raise_exception and strftime_now, which Hugging Face adds.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/value.h"

namespace baton::jinja {

std::optional<Value> find_function(std::string_view name);

}  // namespace baton::jinja
