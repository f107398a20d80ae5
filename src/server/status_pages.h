// What operators and load balancers ask: models, health, readiness, version, load, metrics.
// Answered on the HTTP thread at once, from numbers only.
#pragma once

#include <memory>
#include <string>

#include "server/http/exchange.h"
#include "server/service.h"

namespace baton {

std::string_view baton_version();

void handle_models(Service& service, const std::shared_ptr<Exchange>& exchange);
void handle_model(Service& service, const std::shared_ptr<Exchange>& exchange);  // /v1/models/NAME
void handle_health(Service& service, const std::shared_ptr<Exchange>& exchange);
void handle_ready(Service& service, const std::shared_ptr<Exchange>& exchange);
void handle_version(Service& service, const std::shared_ptr<Exchange>& exchange);
void handle_load(Service& service, const std::shared_ptr<Exchange>& exchange);
void handle_server_info(Service& service, const std::shared_ptr<Exchange>& exchange);
void handle_metrics(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace baton
