#include "engine_options.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>

#include "base/log.h"
#include "chat_prompt_source.h"
#include "kernels/tables.h"
#include "kv_cache/block_layout.h"
#include "layered_options.h"
#include "load_progress.h"
#include "text/output_choice.h"

namespace baton {
namespace {

constexpr double kWarmUpSeconds = 300.0;

Error named(const std::string& flag, const Error& error) {
  return {error.code, "--" + flag + ": " + error.message};
}

Status read_size(const std::string& flag, const std::string& text, int64_t most, int64_t& value) {
  Result<int64_t> size = parse_human_size(text);
  if (!size) return named(flag, size.error());
  if (*size > most) {
    return invalid_argument("--" + flag + ": expected at most " + std::to_string(most) + ", got " +
                            text);
  }
  value = *size;
  return {};
}

Status at_least_one(const std::string& flag, int64_t value) {
  if (value >= 1) return {};
  return invalid_argument("--" + flag + ": expected at least 1, got " + std::to_string(value));
}

template <typename T>
Status read_size_into(const std::string& flag, const std::string& text, T& value) {
  int64_t size = 0;
  if (Status read = read_size(flag, text, std::numeric_limits<T>::max(), size); !read) return read;
  value = static_cast<T>(size);
  return {};
}

Result<EngineOptions> engine_options_of(const EngineFlags& flags) {
  EngineOptions options;
  Status status;
  if (flags.max_model_len != "auto" && flags.max_model_len != "-1") {
    status = read_size_into("max-model-len", flags.max_model_len, options.max_model_len);
    if (!status) return status.error();
    status = at_least_one("max-model-len", options.max_model_len);
    if (!status) return status.error();
  }
  status = read_size_into(
      "max-num-batched-tokens", flags.max_num_batched_tokens, options.max_num_batched_tokens);
  if (!status) return status.error();
  status = read_size_into(
      "kv-cache-memory-bytes", flags.kv_cache_memory_bytes, options.kv_cache_memory_bytes);
  if (!status) return status.error();
  status = read_size_into("kv-cache-tokens", flags.kv_cache_tokens, options.kv_cache_tokens);
  if (!status) return status.error();
  status = read_size_into("max-queued-tokens", flags.max_queued_tokens, options.max_queued_tokens);
  if (!status) return status.error();
  for (const auto& [flag, value] :
       {std::pair<const char*, int64_t>{"max-num-seqs", flags.max_num_seqs},
        {"max-num-batched-tokens", options.max_num_batched_tokens},
        {"max-queued-requests", flags.max_queued_requests},
        {"stream-interval", flags.stream_interval}}) {
    status = at_least_one(flag, value);
    if (!status) return status.error();
  }
  if (flags.memory_utilization <= 0.0 || flags.memory_utilization > 1.0) {
    return invalid_argument("--gpu-memory-utilization: expected more than 0, at most 1");
  }
  options.max_num_seqs = flags.max_num_seqs;
  options.max_queued_requests = flags.max_queued_requests;
  options.memory_utilization = flags.memory_utilization;
  options.enable_prefix_caching = flags.enable_prefix_caching;
  options.enable_graphs = flags.enable_graphs;
  options.stream_interval = flags.stream_interval;
  options.seed = flags.seed;
  Result<SpeculationOptions> speculation = read_speculation(flags.speculation, flags.compat);
  if (!speculation) return speculation.error();
  options.speculation = *speculation;
  return options;
}

Result<LoadOptions> load_options_of(const EngineFlags& flags) {
  LoadOptions options;
  Result<KvCacheDtype> kv = parse_kv_cache_dtype(flags.kv_cache_dtype);
  if (!kv) return named("kv-cache-dtype", kv.error());
  Result<KvCacheDtype> index = parse_kv_cache_dtype(flags.index_cache_dtype);
  if (!index) return named("index-cache-dtype", index.error());
  if (flags.dtype != "auto" && flags.dtype != "float32" && flags.dtype != "bfloat16") {
    return invalid_argument("--dtype: expected auto, float32 or bfloat16, got '" + flags.dtype +
                            "'");
  }
  options.kv_cache_dtype = *kv;
  options.index_cache_dtype = *index;
  options.dtype = flags.dtype;
  options.strict = flags.strict;
  return options;
}

bool is_one_of(const std::string& value, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Status check_parsers(const EngineFlags& flags) {
  if (!is_one_of(flags.tool_call_parser, {"auto", "none"}) &&
      find_tool_call_format(flags.tool_call_parser) == nullptr) {
    return invalid_argument("--tool-call-parser: expected auto, none, " + tool_call_format_names() +
                            ", got '" + flags.tool_call_parser + "'");
  }
  if (!is_one_of(flags.reasoning_parser,
                 {"auto", "none", "glm45", "deepseek_r1", "deepseek_v3", "qwen3"})) {
    return invalid_argument(
        "--reasoning-parser: expected auto, none, glm45, deepseek_r1, deepseek_v3 or qwen3, got '" +
        flags.reasoning_parser + "'");
  }
  return {};
}

// Prompt and vocabulary choose the parsers unless flags do; tags that the vocabulary lacks are
// searched for in the text.
void choose_parsers(const EngineFlags& flags,
                    const Tokenizer& tokenizer,
                    const ChatTemplate* chat_template,
                    ServedModel& served) {
  if (flags.tool_call_parser != "auto") {
    served.tool_calls = find_tool_call_format(flags.tool_call_parser);
  } else if (chat_template != nullptr && !chat_template->tool_call_format().empty()) {
    served.tool_calls = find_tool_call_format(chat_template->tool_call_format());
  } else {
    served.tool_calls =
        choose_tool_call_format(tokenizer, chat_template != nullptr ? chat_template->source() : "");
  }
  served.tags = output_tags_of(tokenizer, served.tool_calls);
  const bool thinks = served.tags.is_token(kThinkOpen) && served.tags.is_token(kThinkClose);
  const std::string& reasoning = flags.reasoning_parser;
  served.parse_reasoning = reasoning == "auto" ? thinks : reasoning != "none";
  if ((served.parse_reasoning && !thinks) ||
      (served.tool_calls != nullptr && !vocabulary_has(tokenizer, *served.tool_calls))) {
    log_warning("the tags of the chosen parsers are not in the vocabulary; text is searched");
  }
  log_info(std::string("reasoning: ") +
           (served.parse_reasoning ? "between <think> and </think>" : "not split") +
           ", tool-call parser: " +
           (served.tool_calls != nullptr ? std::string(served.tool_calls->name) : "none"));
}

SamplingParams defaults_of(const ModelConfig& config) {
  SamplingParams defaults;
  defaults.temperature = config.temperature.value_or(1.0F);
  defaults.top_p = config.top_p.value_or(1.0F);
  defaults.min_p = config.min_p.value_or(0.0F);
  defaults.top_k = config.top_k.value_or(0);
  defaults.repetition_penalty = config.repetition_penalty.value_or(1.0F);
  return defaults;
}

// One real token through everything: after it the engine is known to work.
Status warm_up(Engine& engine) {
  auto done = std::make_shared<std::promise<Status>>();
  Request request;
  request.id = 0;
  request.prompt = {0};
  request.sampling.max_tokens = 1;
  request.sampling.temperature = 0.0F;
  request.sampling.ignore_eos = true;
  request.deliver = [done](StreamUpdate&& update) {
    if (!update.finish) return;
    const bool failed = update.finish->reason == FinishReason::kError ||
                        update.finish->reason == FinishReason::kAbort;
    done->set_value(!failed ? Status()
                            : Status(update.finish->error.value_or(
                                  internal_error("the engine gave up the warm-up request"))));
  };
  if (Status submitted = engine.submit(std::move(request)); !submitted) return submitted;
  std::future<Status> result = done->get_future();
  if (result.wait_for(std::chrono::duration<double>(kWarmUpSeconds)) != std::future_status::ready) {
    return internal_error("the warm-up token did not come in time");
  }
  return result.get();
}

// A tokenizer of another model: almost every text would hold a token that the model does not have.
Status check_vocabulary(const std::string& folder, const Tokenizer& tokenizer, int64_t vocab_size) {
  int32_t largest = tokenizer.vocab_size() - 1;
  const auto is_ordinary = [&](int32_t id) {
    return !tokenizer.is_added(id) && !tokenizer.token_bytes(id).empty();
  };
  while (largest >= vocab_size && !is_ordinary(largest)) --largest;
  if (largest >= vocab_size) {
    return invalid_argument(folder +
                            "/tokenizer.json: expected tokens below the model's vocab_size, " +
                            std::to_string(vocab_size) + ", got " + std::to_string(largest));
  }
  if (tokenizer.vocab_size() > vocab_size) {
    log_warning("tokenizer.json has added tokens beyond the model's vocabulary of " +
                std::to_string(vocab_size) + "; prompts with them are refused");
  }
  return {};
}

Result<std::unique_ptr<Model>> load_with_progress(const EngineFlags& flags, Device& device) {
  Result<LoadOptions> options = load_options_of(flags);
  if (!options) return options.error();
  const auto progress = std::make_shared<LoadProgress>();
  options->progress = [progress](int64_t done, int64_t total) { progress->update(done, total); };
  Result<std::unique_ptr<Model>> model = load_model(flags.model, device, *options);
  progress->finish();
  return model;
}

void add_model_options(CLI::App& app, EngineFlags& flags) {
  app.add_option("model,--model", flags.model, "folder of a Hugging Face checkpoint");
  app.add_option("--tokenizer", flags.tokenizer, "folder with tokenizer.json, if another");
  app.add_option("--chat-template", flags.chat_template, "file with the chat template, if another");
  app.add_option("--dtype", flags.dtype, "auto, float32, bfloat16")->capture_default_str();
  app.add_option("--kv-cache-dtype",
                 flags.kv_cache_dtype,
                 "auto, float32, bfloat16, fp8_ds_mla, nvfp4_ds_mla")
      ->capture_default_str();
  app.add_option("--index-cache-dtype", flags.index_cache_dtype, "auto, float32, bfloat16, fp8")
      ->capture_default_str();
}

void add_capacity_options(CLI::App& app, EngineFlags& flags) {
  app.add_option("--max-model-len", flags.max_model_len, "context in tokens: 4096, 32k, auto")
      ->capture_default_str();
  app.add_option("--max-num-seqs", flags.max_num_seqs, "sequences in one step")
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", flags.max_num_batched_tokens, "tokens in one step")
      ->capture_default_str();
  app.add_option("--max-queued-requests",
                 flags.max_queued_requests,
                 "waiting requests, beyond which 429 is answered")
      ->capture_default_str();
  app.add_option("--max-queued-tokens",
                 flags.max_queued_tokens,
                 "waiting prompt tokens, beyond which 429 is answered; 0: no limit")
      ->capture_default_str();
  app.add_option("--kv-cache-memory-bytes",
                 flags.kv_cache_memory_bytes,
                 "size of the KV cache, 4G; 0: from the memory there is")
      ->capture_default_str();
  app.add_option("--kv-cache-tokens", flags.kv_cache_tokens, "the same in tokens; 0: off")
      ->capture_default_str();
  app.add_option("--gpu-memory-utilization",
                 flags.memory_utilization,
                 "share of the device's free memory to use")
      ->capture_default_str();
}

void add_step_options(CLI::App& app, EngineFlags& flags) {
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching",
               flags.enable_prefix_caching,
               "reuse KV of equal prefixes (on)")
      ->default_str(flags.enable_prefix_caching ? "true" : "false");
  app.add_flag("--enable-graphs,!--no-enable-graphs",
               flags.enable_graphs,
               "replay captured decode graphs where the device has them (on)")
      ->default_str(flags.enable_graphs ? "true" : "false");
  app.add_option("--stream-interval", flags.stream_interval, "tokens per delivery")
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "for requests without one")->capture_default_str();
  add_speculative_options(app, flags.speculation);
  app.add_option("--device", flags.device, "cpu, cuda, cuda:N")->capture_default_str();
  app.add_option("--kernels", flags.kernels, "auto, reference")->capture_default_str();
  app.add_option("--cpu-threads", flags.cpu_threads, "0: one per core that this process may use")
      ->capture_default_str();
}

void add_reading_options(CLI::App& app, EngineFlags& flags) {
  app.add_flag("--strict", flags.strict, "refuse config keys and tensors that nothing uses")
      ->default_str(flags.strict ? "true" : "false");
  app.add_option(
         "--tool-call-parser", flags.tool_call_parser, "auto, none, " + tool_call_format_names())
      ->capture_default_str();
  app.add_option("--reasoning-parser",
                 flags.reasoning_parser,
                 "auto, none; glm45, deepseek_r1, deepseek_v3, qwen3 (all split <think>)")
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "debug, info, warning, error")
      ->capture_default_str();
}

}  // namespace

// In the order of --help.
void add_engine_options(CLI::App& app, EngineFlags& flags) {
  add_model_options(app, flags);
  add_capacity_options(app, flags);
  add_step_options(app, flags);
  add_reading_options(app, flags);
}

Status check_engine_flags(const EngineFlags& flags) {
  if (flags.model.empty()) return invalid_argument("--model: expected a checkpoint folder");
  std::error_code code;
  if (!std::filesystem::is_directory(flags.model, code)) {
    return not_found("--model " + flags.model + ": no such folder");
  }
  if (Result<EngineOptions> options = engine_options_of(flags); !options) return options.error();
  if (Result<LoadOptions> options = load_options_of(flags); !options) return options.error();
  if (flags.cpu_threads < 0) return invalid_argument("--cpu-threads: expected 0 or more");
  if (flags.device != "cpu" && flags.device != "cuda" && !flags.device.starts_with("cuda:")) {
    return invalid_argument("--device: expected cpu, cuda or cuda:N, got '" + flags.device + "'");
  }
  return check_parsers(flags);
}

Status install_log(const std::string& level) {
  LogLevel least = LogLevel::kInfo;
  if (level == "debug") {
    least = LogLevel::kDebug;
  } else if (level == "warning") {
    least = LogLevel::kWarning;
  } else if (level == "error") {
    least = LogLevel::kError;
  } else if (level != "info") {
    return invalid_argument("--log-level: expected debug, info, warning or error, got '" + level +
                            "'");
  }
  auto logger = spdlog::stderr_color_mt("baton");
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  logger->set_level(spdlog::level::debug);
  set_log(least, [logger](LogLevel line_level, std::string_view text) {
    static constexpr spdlog::level::level_enum kLevels[] = {
        spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
    logger->log(kLevels[static_cast<size_t>(line_level)],
                spdlog::string_view_t(text.data(), text.size()));
  });
  return {};
}

Result<std::unique_ptr<LoadedEngine>> load_engine(const EngineFlags& flags) {
  auto loaded = std::make_unique<LoadedEngine>();
  const std::string tokenizer_folder = flags.tokenizer.empty() ? flags.model : flags.tokenizer;
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(tokenizer_folder);
  if (!tokenizer) return tokenizer.error();
  loaded->tokenizer = std::move(*tokenizer);

  auto chat_template = load_chat_template(flags.model, flags.chat_template);
  if (!chat_template) return chat_template.error();
  loaded->chat_prompt = make_chat_prompt_source(*chat_template, *loaded->tokenizer);

  Result<std::unique_ptr<Device>> device = open_device(flags.device, flags.cpu_threads);
  if (!device) return named("device " + flags.device, device.error());
  Result<const KernelTable*> kernels = table_for(**device, flags.kernels);
  if (!kernels) return named("kernels", kernels.error());
  Result<std::unique_ptr<Model>> model = load_with_progress(flags, **device);
  if (!model) return model.error();
  Status fits =
      check_vocabulary(tokenizer_folder, *loaded->tokenizer, (*model)->config().vocab_size);
  if (!fits) return fits.error();
  Result<EngineOptions> options = engine_options_of(flags);
  if (!options) return options.error();
  const std::string device_name = (*device)->description();
  Result<std::unique_ptr<Engine>> engine =
      Engine::create(std::move(*model), std::move(*device), **kernels, *options);
  if (!engine) return engine.error();
  loaded->engine = std::move(*engine);
  if (Status warm = warm_up(*loaded->engine); !warm) return warm.error();

  const ModelConfig& config = loaded->engine->model().config();
  ServedModel& served = loaded->served;
  served.engine = loaded->engine.get();
  served.tokenizer = loaded->tokenizer.get();
  served.chat_prompt = loaded->chat_prompt;
  served.max_model_len = loaded->engine->memory_plan().max_model_len;
  served.vocab_size = static_cast<int32_t>(config.vocab_size);
  served.defaults = defaults_of(config);
  choose_parsers(flags, *loaded->tokenizer, chat_template->get(), served);
  served.info = {{"architecture", config.architecture},
                 {"device", device_name},
                 {"kernels", std::string((*kernels)->name)},
                 {"kv_blocks", loaded->engine->memory_plan().kv_blocks}};
  return loaded;
}

}  // namespace baton
