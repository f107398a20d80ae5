// Parses a whole template. What the language has but Baton does not (inheritance, includes,
// imports, recursive loops) is an error here, not while a request waits.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"

namespace baton::jinja {

// Errors are "line N: ...".
Result<std::unique_ptr<Program>> parse(std::string_view source);

}  // namespace baton::jinja
