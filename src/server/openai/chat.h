// POST /v1/chat/completions.
#pragma once

#include <memory>

#include "server/http/exchange.h"
#include "server/service.h"

namespace baton {

void handle_chat(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace baton
