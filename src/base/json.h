// JSON values and guarded parsing. nlohmann-json is the library; this header adds what input
// from outside needs: no exceptions, a depth limit, time in proportion to its length, and errors
// that say where. Of equal keys the last counts, as in Python.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace baton {

// Key order is kept: chat templates print objects in the order they came.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_depth = 200;  // deeper nesting is refused before it can exhaust the stack
};

// Parses the whole of `text`. `where` names the source (a file, "request body") in errors.
Result<Json> parse_json(std::string_view text, std::string_view where, JsonLimits limits = {});

// Reads and parses a file; errors name the path.
Result<Json> read_json_file(const std::string& path);

// Reads a whole file into memory.
Result<std::string> read_file(const std::string& path);

// Dumps with invalid UTF-8 replaced by U+FFFD: output never throws.
std::string dump_json(const Json& value);

// Appends what stands between the quotes of a JSON string for `text`, which is valid UTF-8.
// Pieces may be cut anywhere between characters.
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace baton
