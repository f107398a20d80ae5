#include "server/metrics.h"

#include <charconv>

#include "engine/engine.h"

namespace baton {
namespace {

std::vector<double> request_latency_bounds() {
  return {0.01, 0.05, 0.1,  0.2,  0.3,  0.5,  0.8,  1.0,   1.5,   2.0,   2.5,   5.0,
          10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0};
}

std::vector<double> token_count_bounds() {
  std::vector<double> bounds;
  for (int64_t decade = 1; decade <= 1'000'000; decade *= 10) {
    for (const int64_t step : {1, 2, 5}) bounds.push_back(static_cast<double>(decade * step));
  }
  return bounds;
}

void append_double(std::string& out, double value) {
  char text[40];
  const auto result = std::to_chars(text, text + sizeof text, value);
  out.append(text, result.ptr);
}

void append_head(std::string& out,
                 std::string_view name,
                 std::string_view type,
                 std::string_view help) {
  out += "# HELP ";
  out += name;
  out += ' ';
  out += help;
  out += "\n# TYPE ";
  out += name;
  out += ' ';
  out += type;
  out += '\n';
}

void append_sample(std::string& out, std::string_view name, std::string_view labels, double value) {
  out += name;
  out += '{';
  out += labels;
  out += "} ";
  append_double(out, value);
  out += '\n';
}

std::string escape_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

class Page {
 public:
  explicit Page(std::string labels) : labels_(std::move(labels)) {}

  void number(std::string_view name, std::string_view type, std::string_view help, double value) {
    append_head(text_, name, type, help);
    append_sample(text_, name, labels_, value);
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    number(name, "gauge", help, value);
  }
  void counter(std::string_view name, std::string_view help, int64_t value) {
    number(name, "counter", help, static_cast<double>(value));
  }
  // One sample for each entry, labelled with its place.
  void counters(std::string_view name,
                std::string_view help,
                std::string_view label,
                const std::vector<int64_t>& values) {
    append_head(text_, name, "counter", help);
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string labels =
          labels_ + "," + std::string(label) + "=\"" + std::to_string(i) + "\"";
      append_sample(text_, name, labels, static_cast<double>(values[i]));
    }
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
    append_head(text_, name, "histogram", help);
    histogram.append(text_, name, labels_);
  }
  void ends(std::string_view name,
            std::string_view help,
            std::string_view label,
            const Metrics& metrics,
            size_t reasons) {
    append_head(text_, name, "counter", help);
    for (size_t i = 0; i < reasons; ++i) {
      const std::string labels = labels_ + "," + std::string(label) + "=\"" +
                                 std::string(end_reason_name(static_cast<EndReason>(i))) + "\"";
      append_sample(text_, name, labels, static_cast<double>(metrics.finished[i].load()));
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string labels_;
  std::string text_;
};

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

void append_engine(Page& page, const EngineStats& stats, const MetricsContext& context) {
  const double used = share(stats.blocks_referenced, stats.blocks_total);
  page.gauge("vllm:num_requests_running",
             "Requests in the running batch.",
             static_cast<double>(stats.running));
  page.gauge("vllm:num_requests_waiting",
             "Requests waiting to be scheduled.",
             static_cast<double>(stats.waiting));
  page.gauge("vllm:kv_cache_usage_perc", "Share of KV blocks that requests hold (0 to 1).", used);
  page.gauge("vllm:gpu_cache_usage_perc", "As vllm:kv_cache_usage_perc, its older name.", used);
  page.gauge("baton:kv_cache_cached_share",
             "Share of KV blocks that no request holds but that keep a prefix.",
             share(stats.blocks_cached, stats.blocks_total));
  page.gauge("baton:kv_blocks_total", "KV blocks.", static_cast<double>(stats.blocks_total));
  page.gauge("baton:kv_block_tokens",
             "Tokens of one KV block.",
             static_cast<double>(context.kv_block_tokens));
  page.counter("vllm:prefix_cache_queries_total",
               "Prompt tokens looked up on first admission; recomputation does not count.",
               stats.prefix_cache_queries);
  page.counter("vllm:prefix_cache_hits_total", "Of these, found.", stats.prefix_cache_hits);
  page.counter("vllm:num_preemptions_total", "Preemptions.", stats.preemptions);
  page.counter(
      "vllm:prompt_tokens_total", "Prompt tokens of admitted requests.", stats.prompt_tokens);
  page.counter("vllm:generation_tokens_total", "Tokens generated.", stats.generation_tokens);
  page.counter("baton:engine_steps_total", "Engine steps.", stats.steps);
  page.counter(
      "baton:graph_replays_total", "Steps replayed from a captured graph.", stats.graph_replays);
}

void append_speculation(Page& page, const EngineStats& stats) {
  page.counter("vllm:spec_decode_num_drafts_total",
               "Steps of a sequence that verified drafts.",
               stats.drafts);
  page.counter("vllm:spec_decode_num_draft_tokens_total", "Drafts verified.", stats.draft_tokens);
  page.counter("vllm:spec_decode_num_accepted_tokens_total",
               "Of these, tokens of the output.",
               stats.accepted_drafts);
  page.counters("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                "The same by place in the draft.",
                "position",
                stats.accepted_at);
}

void append_latencies(Page& page, const Metrics& m) {
  page.histogram(
      "vllm:time_to_first_token_seconds", "Arrival to first token.", m.time_to_first_token);
  page.histogram("vllm:inter_token_latency_seconds",
                 "Between tokens, counted per token.",
                 m.inter_token_latency);
  page.histogram("vllm:time_per_output_token_seconds",
                 "As vllm:inter_token_latency_seconds, its older name.",
                 m.inter_token_latency);
  page.histogram("vllm:e2e_request_latency_seconds", "Arrival to end.", m.end_to_end_latency);
  page.histogram("vllm:request_queue_time_seconds", "Submitted to first scheduled.", m.queue_time);
  page.histogram(
      "vllm:request_prefill_time_seconds", "First scheduled to first token.", m.prefill_time);
  page.histogram("vllm:request_decode_time_seconds", "First token to last.", m.decode_time);
  page.histogram(
      "vllm:request_inference_time_seconds", "First scheduled to last token.", m.inference_time);
  page.histogram("vllm:request_prompt_tokens", "Prompt tokens.", m.prompt_tokens);
  page.histogram("vllm:request_generation_tokens", "Generated tokens.", m.generation_tokens);
  page.histogram("vllm:request_params_max_tokens", "max_tokens as served.", m.max_tokens);
  page.histogram("vllm:request_params_n", "Choices asked for.", m.choices);
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), buckets_(bounds_.size() + 1) {}

void Histogram::observe(double value, int64_t times) {
  size_t i = 0;
  while (i < bounds_.size() && value > bounds_[i]) ++i;
  buckets_[i] += times;
  sum_ += value * static_cast<double>(times);
}

int64_t Histogram::count() const {
  int64_t total = 0;
  for (const auto& bucket : buckets_) total += bucket.load();
  return total;
}

void Histogram::append(std::string& out, std::string_view name, std::string_view labels) const {
  int64_t cumulative = 0;
  const std::string bucket = std::string(name) + "_bucket";
  for (size_t i = 0; i < buckets_.size(); ++i) {
    cumulative += buckets_[i].load();
    std::string with_bound = std::string(labels) + ",le=\"";
    if (i < bounds_.size()) {
      append_double(with_bound, bounds_[i]);
    } else {
      with_bound += "+Inf";
    }
    with_bound += '"';
    append_sample(out, bucket, with_bound, static_cast<double>(cumulative));
  }
  append_sample(out, std::string(name) + "_sum", labels, sum_);
  append_sample(out, std::string(name) + "_count", labels, static_cast<double>(cumulative));
}

std::string_view end_reason_name(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
      return "stop";
    case EndReason::kLength:
      return "length";
    case EndReason::kToolCalls:
      return "tool_calls";
    case EndReason::kAbort:
      return "abort";
    case EndReason::kError:
      return "error";
    case EndReason::kRejected:
      return "rejected";
  }
  return "error";
}

Metrics::Metrics()
    : time_to_first_token({0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                           1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0}),
      inter_token_latency({0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,  0.3,
                           0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10.0, 20.0, 40.0, 80.0}),
      end_to_end_latency(request_latency_bounds()),
      queue_time(request_latency_bounds()),
      prefill_time(request_latency_bounds()),
      decode_time(request_latency_bounds()),
      inference_time(request_latency_bounds()),
      prompt_tokens(token_count_bounds()),
      generation_tokens(token_count_bounds()),
      max_tokens(token_count_bounds()),
      choices({1, 2, 5, 10, 20}) {}

void Metrics::request_finished(EndReason reason, const RequestTimes& times) {
  ++finished[static_cast<size_t>(reason)];
  if (reason == EndReason::kRejected) return;
  const RequestUsage& usage = times.usage;
  end_to_end_latency.observe(times.end_to_end);
  prompt_tokens.observe(usage.prompt_tokens);
  generation_tokens.observe(usage.output_tokens);
  if (times.time_to_first_token < 0.0) return;
  time_to_first_token.observe(times.time_to_first_token);
  queue_time.observe(usage.queue_seconds);
  prefill_time.observe(usage.prefill_seconds);
  decode_time.observe(usage.decode_seconds);
  inference_time.observe(usage.prefill_seconds + usage.decode_seconds);
}

std::string metrics_text(const Metrics& metrics,
                         const EngineStats* stats,
                         const MetricsContext& context) {
  Page page("model_name=\"" + escape_label(context.model_name) + "\",engine=\"0\"");
  page.gauge("baton:ready", "1 once requests are served.", context.ready ? 1 : 0);
  page.gauge("baton:healthy", "1 while the engine makes progress.", context.healthy ? 1 : 0);
  page.gauge(
      "baton:http_connections", "Open connections.", static_cast<double>(context.connections));
  page.gauge("baton:active_requests",
             "API requests being answered.",
             static_cast<double>(context.active_requests));
  page.counter(
      "baton:http_requests_total", "HTTP requests, probes included.", metrics.http_requests);
  page.counter("baton:tool_calls_total", "Tool calls handed out.", metrics.tool_calls);
  page.counter("baton:unknown_tool_answers_total",
               "Chat choices that call a function that was not offered.",
               metrics.unknown_tool_answers);
  page.counter("baton:empty_answers_total",
               "Chat choices with neither content nor a tool call.",
               metrics.empty_answers);
  page.ends("baton:requests_finished_total",
            "API requests by how they ended; sums to all.",
            "reason",
            metrics,
            kEndReasons);
  page.ends("vllm:request_success_total",
            "API requests that were served, by finish reason.",
            "finished_reason",
            metrics,
            static_cast<size_t>(EndReason::kError));
  if (stats != nullptr) append_engine(page, *stats, context);
  if (stats != nullptr && !stats->accepted_at.empty()) append_speculation(page, *stats);
  append_latencies(page, metrics);
  return page.take();
}

}  // namespace baton
