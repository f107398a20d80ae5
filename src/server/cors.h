// Which web pages of other origins may use the API from a browser: the CORS part of the Fetch
// standard. Without credentials, so "*" stands for every page. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http/exchange.h"

namespace baton {

// "*", or origins such as https://host:port with commas between them or as a JSON list; "" and []
// are none. The error says which one is no origin.
Result<std::vector<std::string>> parse_origins(const std::string& text);

// What every answer to `request` carries, errors and streams too.
HttpHeaders cors_headers(const std::vector<std::string>& allowed, const HttpRequest& request);

// The answer to a browser that asks whether a page may send a request; absent where `request` does
// not ask that.
std::optional<HttpResponse> answer_preflight(const std::vector<std::string>& allowed,
                                             const HttpRequest& request);

}  // namespace baton
