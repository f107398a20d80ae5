// The common way of an API request: admission, body parsing on a worker thread, and one record
// of its end when it is refused.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/generation.h"
#include "server/openai/fields.h"
#include "server/service.h"

namespace baton {

// Called on a worker thread with the parsed body, an object. Returns the error to refuse the
// request with; else it has answered, or will.
using ApiBody = std::function<std::optional<ApiError>(Service& service,
                                                      const std::shared_ptr<Exchange>& exchange,
                                                      const Json& body,
                                                      RequestRecord record)>;

// HTTP thread. `endpoint` names the request in the log.
void run_api_call(Service& service,
                  std::shared_ptr<Exchange> exchange,
                  const std::string& endpoint,
                  ApiBody body);

// The body as an object; the error never quotes what was sent.
Result<Json> parse_body(const HttpRequest& request, const std::string& body);

// Model named in the body, or the served one when it names none; checks that it is served.
std::optional<ApiError> read_model_name(Fields& fields, const Service& service);

}  // namespace baton
