// The flags of every verb that loads a model, and what they load: device, model, engine and
// tokenizer, in one piece that is torn down in the right order.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "device/device.h"
#include "engine/engine.h"
#include "model/model.h"
#include "server/service.h"
#include "speculative_flags.h"
#include "text/tokenizer.h"

namespace baton {

struct EngineFlags {
  std::string model;
  std::string tokenizer;  // a folder; empty: the model's
  std::string chat_template;
  std::string dtype = "auto";
  std::string kv_cache_dtype = "auto";
  std::string index_cache_dtype = "auto";
  std::string max_model_len = "auto";
  int max_num_seqs = 64;
  std::string max_num_batched_tokens = "4096";
  int max_queued_requests = 1024;
  std::string max_queued_tokens = "0";
  std::string kv_cache_memory_bytes = "0";
  std::string kv_cache_tokens = "0";
  double memory_utilization = 0.9;
  bool enable_prefix_caching = true;
  bool enable_graphs = true;
  int stream_interval = 1;
  uint64_t seed = 0;
  SpeculativeFlags speculation;
  bool compat = false;  // what vLLM has and Baton does not is passed over
  std::string device = "cpu";
  std::string kernels = "auto";
  int cpu_threads = 0;
  bool strict = false;
  std::string tool_call_parser = "auto";
  std::string reasoning_parser = "auto";
  std::string log_level = "info";
};

void add_engine_options(CLI::App& app, EngineFlags& flags);

// Reads what costs nothing (sizes, names, the folder), so that nonsense ends before anything
// else begins.
Status check_engine_flags(const EngineFlags& flags);

// spdlog on stderr, at the level asked for.
Status install_log(const std::string& level);

struct LoadedEngine {
  // In order of construction: each stands on the ones before it.
  std::unique_ptr<Tokenizer> tokenizer;
  std::function<Result<std::vector<int32_t>>(const Conversation&)> chat_prompt;
  std::unique_ptr<Engine> engine;
  ServedModel served;
};

// Loads everything and runs one warm-up token through the engine.
Result<std::unique_ptr<LoadedEngine>> load_engine(const EngineFlags& flags);

}  // namespace baton
