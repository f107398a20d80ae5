// baton bench latency | throughput | serve: how fast a model is in this process, or a server
// behind a URL. Prompts are random tokens; generation runs to its full length.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "api_client.h"
#include "bench_report.h"
#include "engine_options.h"
#include "layered_options.h"
#include "verbs.h"

namespace baton {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchFlags {
  EngineFlags engine;
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  std::string model_name;
  std::string prompt_text;
  std::string input_len = "128";
  int output_len = 32;
  int num_prompts = 16;
  int batch_size = 1;
  int num_iters = 5;
  int num_warmup = 1;
  int max_concurrency = 8;
  double request_rate = 0.0;
  uint64_t prompt_seed = 1;
  std::string output_json;
  int64_t input_tokens = 0;  // input_len as read
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Tokens of the plain middle of the vocabulary; the same for the same seed.
std::vector<int32_t> random_prompt(int64_t length, int32_t vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  const int32_t top = std::max(1, vocab_size * 3 / 4);
  std::uniform_int_distribution<int32_t> token(std::min(256, top - 1), top - 1);
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  for (int32_t& id : prompt) id = token(random);
  return prompt;
}

// One request on an engine in this process.
class EngineRequest {
 public:
  Status start(Engine& engine, RequestId id, std::vector<int32_t> prompt, int output_len) {
    start_ = Clock::now();
    sample_.prompt_tokens = static_cast<int64_t>(prompt.size());
    Request request;
    request.id = id;
    request.prompt = std::move(prompt);
    request.sampling.max_tokens = output_len;
    request.sampling.temperature = 0.0F;
    request.sampling.ignore_eos = true;
    request.deliver = [this](StreamUpdate&& update) { take(update); };
    return engine.submit(std::move(request));
  }
  RequestSample wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return sample_;
  }

 private:
  void take(const StreamUpdate& update) {
    const std::scoped_lock lock(mutex_);
    const Clock::time_point now = Clock::now();
    for (size_t i = 0; i < update.tokens.size(); ++i) {
      if (sample_.output_tokens++ == 0) {
        sample_.time_to_first_token = std::chrono::duration<double>(now - start_).count();
      } else {
        sample_.inter_token.push_back(std::chrono::duration<double>(now - last_).count());
      }
      last_ = now;
    }
    if (!update.finish) return;
    sample_.end_to_end = std::chrono::duration<double>(now - start_).count();
    sample_.failed = update.finish->reason == FinishReason::kError ||
                     update.finish->reason == FinishReason::kAbort;
    done_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point start_, last_;
  RequestSample sample_;
  bool done_ = false;
};

// `count` requests at once, from first submit to last finish.
Result<std::vector<RequestSample>> run_batch(
    Engine& engine, const BenchFlags& flags, int count, RequestId& next_id, double& seconds) {
  const auto vocab_size = static_cast<int32_t>(engine.model().config().vocab_size);
  std::deque<EngineRequest> requests(static_cast<size_t>(count));
  std::vector<RequestSample> samples;
  const Clock::time_point start = Clock::now();
  Status failure;
  size_t started = 0;
  for (EngineRequest& request : requests) {
    const uint64_t seed = flags.prompt_seed * 1000003 + next_id;
    failure = request.start(
        engine, next_id++, random_prompt(flags.input_tokens, vocab_size, seed), flags.output_len);
    if (!failure) break;
    ++started;
  }
  for (size_t i = 0; i < started; ++i) samples.push_back(requests[i].wait());
  seconds = seconds_since(start);
  if (!failure) return failure.error();
  return samples;
}

Json facts_of(const char* benchmark, const BenchFlags& flags) {
  return {{"benchmark", benchmark},
          {"model", flags.engine.model},
          {"device", flags.engine.device},
          {"kernels", flags.engine.kernels},
          {"input_len", flags.input_tokens},
          {"output_len", flags.output_len}};
}

int report_or_fail(Result<std::vector<RequestSample>> samples,
                   const Json& facts,
                   double seconds,
                   const BenchFlags& flags) {
  if (!samples) {
    fail_with(samples.error().message);
    return samples.error().code == ErrorCode::kInvalidArgument ? 2 : 1;
  }
  const Json report = bench_report(facts, *samples, seconds);
  if (Status printed = print_report(report, flags.output_json); !printed) {
    return fail_with(printed.error().message);
  }
  return report["failed"] == 0 ? 0 : 1;
}

int run_latency(const BenchFlags& flags) {
  Result<std::unique_ptr<LoadedEngine>> loaded = load_engine(flags.engine);
  if (!loaded) return fail_with(loaded.error().message);
  std::vector<RequestSample> all;
  RequestId next_id = 1;
  double total = 0.0;
  for (int i = -flags.num_warmup; i < flags.num_iters; ++i) {
    double seconds = 0.0;
    auto samples = run_batch(*(*loaded)->engine, flags, flags.batch_size, next_id, seconds);
    if (!samples) return report_or_fail(samples.error(), {}, 0.0, flags);
    if (i < 0) continue;
    total += seconds;
    all.insert(all.end(), samples->begin(), samples->end());
  }
  Json facts = facts_of("latency", flags);
  facts["batch_size"] = flags.batch_size;
  return report_or_fail(std::move(all), facts, total, flags);
}

int run_throughput(const BenchFlags& flags) {
  Result<std::unique_ptr<LoadedEngine>> loaded = load_engine(flags.engine);
  if (!loaded) return fail_with(loaded.error().message);
  RequestId next_id = 1;
  double seconds = 0.0;
  auto samples = run_batch(*(*loaded)->engine, flags, flags.num_prompts, next_id, seconds);
  return report_or_fail(std::move(samples), facts_of("throughput", flags), seconds, flags);
}

// Tokens of one event: their ids where the server gives them, else one for an event with text.
size_t tokens_of(const Json& event) {
  static const Json::json_pointer ids_at("/choices/0/token_ids");
  if (event.contains(ids_at) && event.at(ids_at).is_array()) return event.at(ids_at).size();
  return string_at(event, "/choices/0/text").empty() ? 0 : 1;
}

RequestSample stream_one(ApiClient& client, const Json& body, std::string& failure) {
  static const Json::json_pointer prompt_tokens_at("/usage/prompt_tokens");
  static const Json::json_pointer output_tokens_at("/usage/completion_tokens");
  RequestSample sample;
  const Clock::time_point start = Clock::now();
  Clock::time_point last = start;
  int64_t counted_by_server = 0;
  Status streamed = client.stream("/v1/completions", body, [&](const Json& event) {
    if (event.contains(prompt_tokens_at)) sample.prompt_tokens = event.at(prompt_tokens_at);
    if (event.contains(output_tokens_at)) counted_by_server = event.at(output_tokens_at);
    const size_t tokens = tokens_of(event);
    const Clock::time_point now = Clock::now();
    for (size_t i = 0; i < tokens; ++i) {
      if (sample.output_tokens++ == 0) {
        sample.time_to_first_token = std::chrono::duration<double>(now - start).count();
      } else {
        sample.inter_token.push_back(std::chrono::duration<double>(now - last).count());
      }
      last = now;
    }
    return true;
  });
  sample.end_to_end = seconds_since(start);
  sample.failed = !streamed || sample.output_tokens == 0;
  if (!streamed) {
    failure = streamed.error().message;
  } else if (sample.failed) {
    failure = "the answer has no tokens";
  }
  sample.output_tokens = std::max(sample.output_tokens, counted_by_server);
  return sample;
}

// What the server says about itself; other engines have no such page.
Result<Json> server_info(const ServerAddress& address, const std::string& api_key) {
  ApiClient client(address, api_key);
  Result<Json> info = client.get("/server_info");
  if (info || info.error().code != ErrorCode::kNotFound) return info;
  return Json::object();
}

// Seconds after the begin at which requests go out; all at once without a rate.
std::vector<double> start_times(const BenchFlags& flags) {
  std::vector<double> starts(static_cast<size_t>(flags.num_prompts), 0.0);
  if (flags.request_rate <= 0) return starts;
  std::mt19937_64 random(flags.prompt_seed);
  std::exponential_distribution<double> gap(flags.request_rate);
  double at = 0.0;
  for (double& start : starts) start = at += gap(random);
  return starts;
}

Json completion_body(const BenchFlags& flags, int32_t vocab_size, size_t number) {
  Json body = {{"max_tokens", flags.output_len},
               {"temperature", 0.0},
               {"ignore_eos", true},
               {"stream", true},
               {"return_token_ids", true},
               {"stream_options", {{"include_usage", true}}}};
  if (!flags.model_name.empty()) body["model"] = flags.model_name;
  if (flags.prompt_text.empty()) {
    body["prompt"] =
        random_prompt(flags.input_tokens, vocab_size, flags.prompt_seed * 1000003 + number);
  } else {
    body["prompt"] = flags.prompt_text;
  }
  return body;
}

// At most max_concurrency requests at a time.
int run_serve_bench(const BenchFlags& flags) {
  Result<ServerAddress> address = parse_url(flags.url);
  if (!address) return fail_with("--url: " + address.error().message);
  Result<Json> info = server_info(*address, flags.api_key);
  if (!info) {
    fail_with(info.error().message);
    return 1;
  }
  const int32_t vocab_size = info->value("vocab_size", 1000);

  const std::vector<double> starts = start_times(flags);
  std::vector<RequestSample> samples(starts.size());
  std::vector<std::string> failures(starts.size());
  std::atomic<size_t> next = 0;
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads(
      static_cast<size_t>(std::min(flags.max_concurrency, flags.num_prompts)));
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      ApiClient client(*address, flags.api_key);
      for (size_t i; (i = next++) < starts.size();) {
        std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                                                  std::chrono::duration<double>(starts[i])));
        samples[i] = stream_one(client, completion_body(flags, vocab_size, i), failures[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = seconds_since(begin);
  // One of them is enough to know why.
  const auto failed = std::find_if(
      failures.begin(), failures.end(), [](const std::string& why) { return !why.empty(); });
  if (failed != failures.end()) {
    fail_with("request " + std::to_string(failed - failures.begin()) + ": " + *failed);
  }
  Json facts = {{"benchmark", "serve"},
                {"url", flags.url},
                {"server", *info},
                {"input_len", flags.input_tokens},
                {"output_len", flags.output_len},
                {"max_concurrency", flags.max_concurrency},
                {"request_rate", flags.request_rate}};
  return report_or_fail(std::move(samples), facts, seconds, flags);
}

void add_bench_options(CLI::App& app, const std::string& kind, BenchFlags& flags) {
  app.add_option("--input-len,--random-input-len", flags.input_len, "tokens of a prompt")
      ->capture_default_str();
  app.add_option("--output-len,--random-output-len", flags.output_len, "tokens of an answer")
      ->capture_default_str();
  app.add_option("--prompt-seed", flags.prompt_seed, "of the random prompts")
      ->capture_default_str();
  app.add_option("--output-json", flags.output_json, "file for the result; -: standard output");
  if (kind == "latency") {
    app.add_option("--batch-size", flags.batch_size, "requests at once")->capture_default_str();
    app.add_option("--num-iters", flags.num_iters, "measured rounds")->capture_default_str();
    app.add_option("--num-iters-warmup", flags.num_warmup, "rounds before")->capture_default_str();
  } else {
    app.add_option("--num-prompts", flags.num_prompts, "requests")->capture_default_str();
  }
  if (kind != "serve") {
    app.option_defaults()->group("Model and engine");
    add_engine_options(app, flags.engine);
    app.option_defaults()->group("Options");
    return;
  }
  app.add_option("--url,--base-url", flags.url, "server to measure")->capture_default_str();
  app.add_option("--api-key", flags.api_key, "key for that server");
  app.add_option("--model-name", flags.model_name, "name of the model on that server");
  app.add_option("--prompt", flags.prompt_text, "text to send instead of random tokens");
  app.add_option("--max-concurrency", flags.max_concurrency, "requests open at a time")
      ->capture_default_str();
  app.add_option("--request-rate", flags.request_rate, "requests a second; 0: all at once")
      ->capture_default_str();
}

Status check_bench_flags(const std::string& kind, BenchFlags& flags) {
  Result<int64_t> input = parse_human_size(flags.input_len);
  if (!input) return invalid_argument("--input-len: " + input.error().message);
  flags.input_tokens = *input;
  for (const auto& [name, value] :
       {std::pair<const char*, int64_t>{"input-len", flags.input_tokens},
        {"output-len", flags.output_len},
        {"num-prompts", flags.num_prompts},
        {"batch-size", flags.batch_size},
        {"num-iters", flags.num_iters},
        {"max-concurrency", flags.max_concurrency}}) {
    if (value < 1) return invalid_argument(std::string("--") + name + ": expected at least 1");
  }
  if (flags.num_warmup < 0) return invalid_argument("--num-iters-warmup: expected 0 or more");
  if (!(flags.request_rate >= 0)) return invalid_argument("--request-rate: expected 0 or more");
  return kind == "serve" ? Status() : check_engine_flags(flags.engine);
}

void print_kinds() {
  std::fputs(
      "Measure how fast a model or a server is.\n"
      "usage: baton bench KIND [options]\n\n"
      "  latency     one batch at a time, in this process\n"
      "  throughput  many requests at once, in this process\n"
      "  serve       a running server, as its clients see it\n\n"
      "baton bench KIND --help lists the options.\n",
      stdout);
}

}  // namespace

int run_bench(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind == "--help" || kind == "-h" || kind == "help") {
    print_kinds();
    return 0;
  }
  if (kind != "latency" && kind != "throughput" && kind != "serve") {
    return fail_with("bench: expected latency, throughput or serve" +
                     (kind.empty() ? "" : ", got '" + kind + "'"));
  }
  CLI::App app("Measure how fast a model or a server is.", "baton bench " + kind);
  BenchFlags flags;
  flags.engine.log_level = "warning";
  add_bench_options(app, kind, flags);
  LayeredOptions options(app);
  if (const auto code = options.parse(argc - 1, argv + 1)) return *code;
  flags.engine.compat = options.compat();
  if (Status status = install_log(flags.engine.log_level); !status) {
    return fail_with(status.error().message);
  }
  if (Status status = check_bench_flags(kind, flags); !status) {
    return fail_with(status.error().message);
  }
  if (kind == "latency") return run_latency(flags);
  if (kind == "throughput") return run_throughput(flags);
  return run_serve_bench(flags);
}

}  // namespace baton
