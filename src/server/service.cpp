#include "server/service.h"

#include <cstdio>

#include "base/log.h"
#include "server/generation.h"

namespace baton {

Service::Service(ServiceOptions options)
    : options_(std::move(options)),
      started_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      workers_(options_.worker_threads) {}

Service::~Service() = default;

void Service::set_ready(ServedModel model) {
  owned_model_ = std::make_unique<ServedModel>(std::move(model));
  model_ = owned_model_.get();
  Phase loading = Phase::kLoading;
  phase_.compare_exchange_strong(loading, Phase::kReady);
}

bool Service::healthy() const {
  const ServedModel* served = model();
  if (served == nullptr) return true;
  return served->engine->alive() &&
         served->engine->seconds_since_progress() < options_.stall_seconds;
}

Status Service::admission() const {
  switch (phase()) {
    case Phase::kLoading:
      return Error{ErrorCode::kUnavailable, "the model is loading"};
    case Phase::kDraining:
      return Error{ErrorCode::kUnavailable, "the server is shutting down"};
    case Phase::kReady:
      break;
  }
  if (!model()->engine->alive()) return Error{ErrorCode::kUnavailable, "the engine has stopped"};
  const auto queued = static_cast<int64_t>(workers_.queued()) + model()->engine->stats().waiting;
  if (queued >= options_.max_queued_requests) {
    return resource_exhausted("the queue is full: " + std::to_string(queued) +
                              " requests are waiting");
  }
  return {};
}

Status Service::check_model(const std::string& name) const {
  std::string served;
  for (const std::string& known : options_.model_names) {
    if (name == known) return {};
    served += served.empty() ? "" : ", ";
    served += "'" + known + "'";
  }
  return not_found("model '" + name.substr(0, 100) + "' is not served here; served: " + served);
}

void Service::add(const std::shared_ptr<Generation>& generation) {
  std::optional<Error> aborted;
  {
    const std::scoped_lock lock(mutex_);
    active_[generation.get()] = generation;
    aborted = aborted_;
  }
  if (aborted) generation->abort(*aborted);
}

void Service::remove(const Generation* generation) {
  const std::scoped_lock lock(mutex_);
  active_.erase(generation);
}

int64_t Service::active() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int64_t>(active_.size());
}

void Service::abort_all(const std::string& why) {
  std::vector<std::shared_ptr<Generation>> open;
  {
    const std::scoped_lock lock(mutex_);
    aborted_ = Error{ErrorCode::kUnavailable, why};
    for (const auto& [key, weak] : active_) {
      if (auto generation = weak.lock()) open.push_back(std::move(generation));
    }
  }
  for (const auto& generation : open) generation->abort(Error{ErrorCode::kUnavailable, why});
}

void Service::finished(const RequestRecord& record) {
  metrics_.request_finished(record.reason, record.times);
  if (!log_enabled(LogLevel::kInfo)) return;
  const RequestUsage& usage = record.times.usage;
  const bool has_token = record.times.time_to_first_token >= 0.0;
  char line[320];
  std::snprintf(line,
                sizeof line,
                "%s id=%.128s status=%d reason=%s prompt=%d cached=%d output=%d queue_ms=%.1f "
                "prefill_ms=%.1f decode_ms=%.1f ttft_ms=%.1f total_ms=%.1f",
                record.endpoint.c_str(),
                record.id.c_str(),
                record.status,
                std::string(end_reason_name(record.reason)).c_str(),
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.output_tokens,
                usage.queue_seconds * 1e3,
                usage.prefill_seconds * 1e3,
                usage.decode_seconds * 1e3,
                has_token ? record.times.time_to_first_token * 1e3 : 0.0,
                record.times.end_to_end * 1e3);
  log_info(line);
}

}  // namespace baton
