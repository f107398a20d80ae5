// Which path and method goes to which endpoint, and the HTTP server over that table. To add an
// endpoint: a line in the table of routes.cpp.
#pragma once

#include <memory>

#include "base/result.h"
#include "server/http/server.h"
#include "server/service.h"

namespace baton {

// Opens the port; `service` must outlive the server. Every request gets an answer.
Result<std::unique_ptr<HttpServer>> open_api_server(Service& service,
                                                    const HttpAddress& address,
                                                    const HttpLimits& limits,
                                                    int http_threads);

}  // namespace baton
