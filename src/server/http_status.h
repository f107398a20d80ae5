// How failures look to clients: the one place where error codes become HTTP statuses, and the
// error object that OpenAI clients parse.
#pragma once

#include <string>

#include "base/result.h"
#include "server/http/exchange.h"

namespace baton {

// An expected failure of a request, with the field that caused it when there is one.
struct ApiError {
  Error error;
  std::string param = {};  // "max_tokens"; empty: none
  std::string code = {};  // "context_length_exceeded": what programs look for; empty: by error.code
};

int http_status(ErrorCode code);

// {"message", "type", "param", "code"}, the last two text or null as OpenAI's; the message is cut
// to a length that cannot carry a whole prompt.
std::string error_object(const ApiError& error);

// Status, {"error": error_object}, and Retry-After where trying again makes sense.
HttpResponse error_response(const ApiError& error);

}  // namespace baton
