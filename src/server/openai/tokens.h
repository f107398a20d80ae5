// POST /tokenize and /detokenize, in vLLM's shapes.
#pragma once

#include <memory>

#include "server/http/exchange.h"
#include "server/service.h"

namespace baton {

void handle_tokenize(Service& service, const std::shared_ptr<Exchange>& exchange);
void handle_detokenize(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace baton
