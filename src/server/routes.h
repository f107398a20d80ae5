// Which path and method goes to which endpoint. To add one: a line in the table of routes.cpp.
#pragma once

#include <memory>
#include <string>

#include "server/http/exchange.h"
#include "server/service.h"

namespace baton {

// The handler of the HTTP server. Never throws; every exchange gets an answer.
void handle_request(Service& service, std::shared_ptr<Exchange> exchange);

// The path that clients mean: without trailing slashes, and with /v1 exactly once where the
// endpoint lives under it.
std::string canonical_path(std::string path);

}  // namespace baton
