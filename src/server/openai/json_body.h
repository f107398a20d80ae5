// The JSON of a request body, read by simdjson in a third of the time that nlohmann's parser takes
// (docs/performance.md). What it refuses, or could take otherwise, goes to parse_json: values and
// errors are those of one parser.
#pragma once

#include <string>

#include "base/json.h"

namespace baton {

// As parse_json(body, "request body").
Result<Json> parse_json_body(const std::string& body);

}  // namespace baton
