// What operators and load balancers ask: models, health, readiness, version, load, metrics.
// Answered on the HTTP thread at once, from numbers only.
#pragma once

#include <memory>
#include <string>

#include "server/http/exchange.h"
#include "server/service.h"

namespace baton {

std::string_view baton_version();

void handle_models(Service& service, std::shared_ptr<Exchange> exchange);
void handle_model(Service& service, std::shared_ptr<Exchange> exchange);  // /v1/models/NAME
void handle_health(Service& service, std::shared_ptr<Exchange> exchange);
void handle_ready(Service& service, std::shared_ptr<Exchange> exchange);
void handle_version(Service& service, std::shared_ptr<Exchange> exchange);
void handle_load(Service& service, std::shared_ptr<Exchange> exchange);
void handle_server_info(Service& service, std::shared_ptr<Exchange> exchange);
void handle_metrics(Service& service, std::shared_ptr<Exchange> exchange);

}  // namespace baton
