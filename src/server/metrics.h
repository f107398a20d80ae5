// Counters and histograms of the API side, and their Prometheus text together with the engine's
// numbers. vLLM's names where the meaning is the same, baton: otherwise. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/request.h"

namespace baton {

struct EngineStats;

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void observe(double value, int64_t times = 1);
  // Buckets (cumulative), sum and count in Prometheus' text form.
  void append(std::string& out, std::string_view name, std::string_view labels) const;
  int64_t count() const;

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<int64_t>> buckets_;  // one more than bounds: the rest
  std::atomic<double> sum_ = 0.0;              // exact for counts up to 2^53
};

// How a request ended, for the counter that sums to all requests received.
enum class EndReason { kStop, kLength, kToolCalls, kAbort, kError, kRejected };
inline constexpr size_t kEndReasons = 6;
std::string_view end_reason_name(EndReason reason);

// Per API request, filled on its way and handed in once at its end.
struct RequestTimes {
  double time_to_first_token = -1.0;  // seconds; < 0: no token came
  double end_to_end = 0.0;
  RequestUsage usage;
};

struct Metrics {
  Metrics();

  std::array<std::atomic<int64_t>, kEndReasons> finished = {};
  std::atomic<int64_t> http_requests = 0;  // all, probes included
  std::atomic<int64_t> tool_calls = 0;
  std::atomic<int64_t> empty_answers = 0;         // choices of chats
  std::atomic<int64_t> unknown_tool_answers = 0;  // choices of chats
  Histogram time_to_first_token;
  Histogram inter_token_latency;
  Histogram end_to_end_latency;
  Histogram queue_time;
  Histogram prefill_time;
  Histogram decode_time;
  Histogram inference_time;
  Histogram prompt_tokens;
  Histogram generation_tokens;
  Histogram max_tokens;
  Histogram choices;

  void request_finished(EndReason reason, const RequestTimes& times);
};

struct MetricsContext {
  std::string model_name;
  bool ready = false;
  bool healthy = false;
  int64_t connections = 0;
  int64_t active_requests = 0;
  int64_t kv_block_tokens = 64;
};

// `stats` null while the model is loading.
std::string metrics_text(const Metrics& metrics,
                         const EngineStats* stats,
                         const MetricsContext& context);

}  // namespace baton
