// POST /v1/completions.
#pragma once

#include <memory>

#include "server/http/exchange.h"
#include "server/service.h"

namespace baton {

void handle_completions(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace baton
