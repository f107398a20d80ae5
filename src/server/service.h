// What all endpoints share: the model being served (once it is loaded), the phase of the
// process, worker threads, numbers, and the requests in flight. Made before the port opens and
// destroyed after the HTTP server has stopped. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "server/choice_text.h"
#include "server/http_status.h"
#include "server/metrics.h"
#include "server/worker_pool.h"
#include "text/tokenizer.h"
#include "text/tool_calls/formats.h"

namespace baton {

class Generation;

// A conversation to turn into token ids.
struct Conversation {
  Json messages;
  Json tools;  // null without
  Json template_arguments = Json::object();
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

// The loaded model as endpoints see it.
struct ServedModel {
  Engine* engine = nullptr;
  const Tokenizer* tokenizer = nullptr;
  // Renders and encodes; null when the model has no chat template.
  std::function<Result<std::vector<int32_t>>(const Conversation&)> chat_prompt;
  int32_t max_model_len = 0;
  int32_t vocab_size = 0;
  OutputTags tags;
  bool parse_reasoning = false;
  const ToolCallFormat* tool_calls = nullptr;  // how it writes calls; null: nobody knows
  SamplingParams defaults;                     // generation_config.json under vLLM's defaults
  Json info = Json::object();                  // for /server_info
};

struct ServiceOptions {
  std::vector<std::string> model_names;              // the first is the one answers carry
  std::string api_key;                               // empty: none asked for
  std::vector<std::string> allowed_origins = {"*"};  // of web pages; see cors.h
  bool strict_requests = false;                      // unknown request fields are a 400
  double stall_seconds = 120.0;                      // no finished step for so long: not healthy
  int worker_threads = 2;
  int max_queued_requests = 1024;
};

enum class Phase { kLoading, kReady, kDraining };

// One API request's accounts: one line in the log at its end, and the counters.
struct RequestRecord {
  std::string id;
  std::string endpoint;
  std::chrono::steady_clock::time_point arrival;
  int status = 200;
  EndReason reason = EndReason::kError;
  RequestTimes times;
};

class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();

  const ServiceOptions& options() const { return options_; }
  int64_t started() const { return started_; }  // Unix seconds
  Metrics& metrics() { return metrics_; }
  WorkerPool& workers() { return workers_; }

  // Once, when a warm-up token has been produced. `model` must outlive the HTTP server.
  void set_ready(ServedModel model);
  // Null while loading.
  const ServedModel* model() const { return model_.load(); }
  Phase phase() const { return phase_; }
  // Engine alive and making progress; true while loading.
  bool healthy() const;
  void begin_drain() { phase_ = Phase::kDraining; }

  // kUnavailable while loading or draining, kResourceExhausted when the queue is full already:
  // asked before a body is parsed.
  Status admission() const;
  // kNotFound with the served names.
  Status check_model(const std::string& name) const;

  RequestId next_id() { return ++last_id_; }
  void add(const std::shared_ptr<Generation>& generation);
  void remove(const Generation* generation);
  int64_t active() const;
  // Ends everything in flight with an error, and whatever a worker still begins.
  void abort_all(const std::string& why);

  void finished(const RequestRecord& record);

  std::function<int()> connections;  // set by the owner of the HTTP server, may be empty

 private:
  const ServiceOptions options_;
  const int64_t started_;
  Metrics metrics_;
  std::atomic<Phase> phase_ = Phase::kLoading;
  std::unique_ptr<ServedModel> owned_model_;
  std::atomic<const ServedModel*> model_ = nullptr;
  std::atomic<RequestId> last_id_ = 0;
  mutable std::mutex mutex_;
  std::map<const Generation*, std::weak_ptr<Generation>> active_;
  std::optional<Error> aborted_;  // under mutex_
  WorkerPool workers_;            // last: its tasks use everything above
};

}  // namespace baton
