#include "server/status_pages.h"

#ifndef BATON_VERSION
#define BATON_VERSION "unknown"
#endif

namespace baton {
namespace {

void respond_json(Exchange& exchange, const Json& body, int status = 200) {
  HttpResponse response{.status = status, .body = dump_json(body)};
  if (status == 503) response.headers.emplace_back("retry-after", "5");
  exchange.respond(std::move(response));
}

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kLoading:
      return "loading";
    case Phase::kReady:
      return "ready";
    case Phase::kDraining:
      return "draining";
  }
  return "loading";
}

Json model_card(const Service& service, const std::string& name) {
  const ServedModel* model = service.model();
  return {{"id", name},
          {"object", "model"},
          {"created", service.started()},
          {"owned_by", "baton"},
          {"root", service.options().model_names[0]},
          {"parent", nullptr},
          {"max_model_len", model != nullptr ? Json(model->max_model_len) : Json(nullptr)},
          {"status", phase_name(service.phase())}};
}

}  // namespace

std::string_view baton_version() {
  return BATON_VERSION;
}

void handle_models(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  for (const std::string& name : service.options().model_names) {
    list.push_back(model_card(service, name));
  }
  respond_json(*exchange, {{"object", "list"}, {"data", std::move(list)}});
}

void handle_model(Service& service, const std::shared_ptr<Exchange>& exchange) {
  std::string name = exchange->request().path.substr(exchange->request().path.find("models/") + 7);
  while (name.ends_with('/') && !service.check_model(name)) name.pop_back();
  if (Status known = service.check_model(name); !known) {
    exchange->respond(error_response({known.error(), "model", "model_not_found"}));
    return;
  }
  respond_json(*exchange, model_card(service, name));
}

void handle_health(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const bool healthy = service.healthy();
  const char* status = "healthy";
  if (!healthy) status = service.model()->engine->alive() ? "stalled" : "dead";
  respond_json(
      *exchange, {{"status", status}, {"phase", phase_name(service.phase())}}, healthy ? 200 : 503);
}

void handle_ready(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const bool ready = service.phase() == Phase::kReady && service.healthy();
  respond_json(
      *exchange, {{"ready", ready}, {"phase", phase_name(service.phase())}}, ready ? 200 : 503);
}

void handle_version(Service&, const std::shared_ptr<Exchange>& exchange) {
  respond_json(*exchange, {{"version", baton_version()}});
}

void handle_load(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const ServedModel* model = service.model();
  const EngineStats stats = model != nullptr ? model->engine->stats() : EngineStats{};
  respond_json(*exchange,
               {{"server_load", service.active()},
                {"running", stats.running},
                {"waiting", stats.waiting},
                {"blocks_total", stats.blocks_total},
                {"blocks_referenced", stats.blocks_referenced},
                {"blocks_cached", stats.blocks_cached}});
}

void handle_server_info(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const ServedModel* model = service.model();
  Json info = {{"version", baton_version()},
               {"phase", phase_name(service.phase())},
               {"models", service.options().model_names},
               {"strict_requests", service.options().strict_requests},
               {"max_queued_requests", service.options().max_queued_requests}};
  if (model != nullptr) {
    info["max_model_len"] = model->max_model_len;
    info["vocab_size"] = model->vocab_size;
    info["splits_reasoning"] = model->parse_reasoning;
    info["tool_call_parser"] = model->tool_calls != nullptr ? model->tool_calls->name : "none";
    info.update(model->info);
  }
  respond_json(*exchange, info);
}

void handle_metrics(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const ServedModel* model = service.model();
  EngineStats stats;
  if (model != nullptr) stats = model->engine->stats();
  MetricsContext context;
  context.model_name = service.options().model_names[0];
  context.ready = service.phase() == Phase::kReady;
  context.healthy = service.healthy();
  context.connections = service.connections ? service.connections() : 0;
  context.active_requests = service.active();
  exchange->respond(
      {.body = metrics_text(service.metrics(), model != nullptr ? &stats : nullptr, context),
       .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

}  // namespace baton
