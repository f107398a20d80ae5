#include "model/architectures/scripted.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"

namespace baton {
namespace {

// The played token's logit; all others are 0. exp(-100) times any vocabulary is nothing beside
// 1, so the token is played at any usual temperature and its logprob is 0.
constexpr float kPlayedLogit = 100.0F;

// The stored row: 16 bytes, the smallest plain row.
struct Row {
  int32_t token;
  int32_t position;
  int64_t unused;
};
constexpr PlainRow kRow{.format = PlainRowFormat::kF32, .kv_heads = 1, .head_dim = 2};

template <typename T>
std::vector<T> to_host(Queue& queue, const ConstTensor& tensor) {
  std::vector<T> host(static_cast<size_t>(tensor.elements()));
  if (!host.empty()) queue.copy(host.data(), tensor.data, host.size() * sizeof(T));
  return host;
}

void sleep_ms(double milliseconds) {
  if (milliseconds <= 0.0) return;
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

// Host copies of what one step needs.
struct HostBatch {
  std::vector<int32_t> token_ids, positions, sequence_of, block_table, sampled_rows;
  int64_t max_blocks = 0;

  int32_t block(int32_t sequence, int32_t position) const {
    const int64_t at = sequence * max_blocks + position / kBlockTokens;
    return block_table[static_cast<size_t>(at)];
  }
};

class ScriptedModel final : public Model {
 public:
  explicit ScriptedModel(ScriptedOptions options)
      : options_(std::move(options)),
        layout_(make_block_layout({LayerCache::kPlain}, {}, {}, kRow)) {
    config_.model_type = "scripted";
    config_.architecture = "Scripted";
    config_.vocab_size = options_.vocab_size;
    config_.num_layers = 1;
    config_.max_position_embeddings = options_.max_position_embeddings;
    config_.eos_token_ids = options_.eos_token_ids;
  }

  const ModelConfig& config() const override { return config_; }
  const BlockLayout& block_layout() const override { return layout_; }
  bool supports_graphs() const override { return false; }  // forward() reads host values

  void forward(ForwardContext& context) const override {
    if (context.scratch.planning()) return;
    const HostBatch batch = read_batch(context);
    store(context, batch);
    const size_t samples = batch.sampled_rows.size();
    sleep_ms(static_cast<double>(batch.token_ids.size() - samples) *
             options_.prefill_token_delay_ms);
    if (samples > 0) {
      sleep_ms(options_.step_delay_ms);
      context.queue.fill(context.logits.data, 0, static_cast<size_t>(context.logits.bytes()));
    }
    for (size_t i = 0; i < samples; ++i) play(context, batch, i);
  }

 private:
  static HostBatch read_batch(ForwardContext& context) {
    HostBatch batch;
    batch.token_ids = to_host<int32_t>(context.queue, context.token_ids);
    batch.positions = to_host<int32_t>(context.queue, context.batch.positions);
    batch.sequence_of = to_host<int32_t>(context.queue, context.batch.sequence_of);
    batch.block_table = to_host<int32_t>(context.queue, context.batch.block_table);
    if (!context.sampled_rows.empty()) {
      batch.sampled_rows = to_host<int32_t>(context.queue, context.sampled_rows);
    }
    batch.max_blocks = context.batch.block_table.dim(1);
    wait(context.queue);
    return batch;
  }

  // A device error here shows again at the engine's own synchronize(), which reports it.
  static void wait(Queue& queue) { (void)queue.synchronize(); }

  uint8_t* row_address(const ForwardContext& context, int32_t block, int32_t position) const {
    return context.kv_blocks + block * layout_.stride_bytes + layout_.layers[0].rows +
           position % kBlockTokens * static_cast<int64_t>(sizeof(Row));
  }

  void store(ForwardContext& context, const HostBatch& batch) const {
    std::vector<Row> rows(batch.token_ids.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const int32_t position = batch.positions[i];
      const int32_t block = batch.block(batch.sequence_of[i], position);
      BATON_CHECK(block >= 0, "no block for position", position);
      rows[i] = {batch.token_ids[i], position, 0};
      context.queue.copy(row_address(context, block, position), &rows[i], sizeof(Row));
    }
    wait(context.queue);
  }

  // The tokens 0..position of a sequence, from the KV blocks.
  std::vector<int32_t> history(ForwardContext& context,
                               const HostBatch& batch,
                               int32_t sequence,
                               int32_t position) const {
    std::vector<Row> rows(static_cast<size_t>(position) + 1);
    for (int32_t first = 0; first <= position; first += kBlockTokens) {
      const int32_t count = std::min<int32_t>(kBlockTokens, position + 1 - first);
      context.queue.copy(rows.data() + first,
                         row_address(context, batch.block(sequence, first), first),
                         static_cast<size_t>(count) * sizeof(Row));
    }
    wait(context.queue);
    std::vector<int32_t> tokens;
    tokens.reserve(rows.size());
    // A row that is not this position's own shows as token -1: the output then differs.
    for (size_t i = 0; i < rows.size(); ++i) {
      tokens.push_back(rows[i].position == static_cast<int32_t>(i) ? rows[i].token : -1);
    }
    return tokens;
  }

  void play(ForwardContext& context, const HostBatch& batch, size_t sample) const {
    const auto row = static_cast<size_t>(batch.sampled_rows[sample]);
    const int32_t position = batch.positions[row];
    const int32_t sequence = batch.sequence_of[row];
    if (options_.mode == ScriptedMode::kCopy) {
      return write_token(context, sample, batch.token_ids[row]);
    }
    if (options_.mode == ScriptedMode::kHistory) {
      const auto tokens = history(context, batch, sequence, position);
      return write_token(context, sample, scripted_history_token(options_, tokens));
    }
    BATON_CHECK(sample < context.output_counts.size() && sample < context.request_ids.size(),
                "the scripted model needs output counts and request ids");
    // Rows inside a prompt (prompt logprobs) count as output 0.
    const int32_t output = std::max(0, context.output_counts[sample]);
    const Script& script = choose(context, batch, sample, position + 1 - output);
    if (output == script.nan_at) {
      return write_row(context, sample, std::numeric_limits<float>::quiet_NaN());
    }
    if (output == script.inf_at) {
      return write_row(context, sample, -std::numeric_limits<float>::infinity());
    }
    if (output == script.throw_at) throw std::bad_alloc();
    const auto index = static_cast<size_t>(output);
    write_token(context, sample, index < script.tokens.size() ? script.tokens[index] : end_token());
  }

  int32_t end_token() const {
    return options_.eos_token_ids.empty() ? 0 : options_.eos_token_ids.front();
  }

  // The first script whose `when` is in the prompt; else, of those without `when`, the one
  // whose turn it is by request id.
  const Script& choose(ForwardContext& context,
                       const HostBatch& batch,
                       size_t sample,
                       int32_t prompt_tokens) const {
    std::vector<const Script*> unconditional;
    std::vector<int32_t> prompt;
    for (const Script& script : options_.scripts) {
      if (script.when.empty()) {
        unconditional.push_back(&script);
        continue;
      }
      if (prompt.empty()) {
        const auto row = static_cast<size_t>(batch.sampled_rows[sample]);
        prompt = history(context, batch, batch.sequence_of[row], prompt_tokens - 1);
      }
      if (!std::ranges::search(prompt, script.when).empty()) return script;
    }
    static const Script kNothing;
    if (unconditional.empty()) return kNothing;
    return *unconditional[context.request_ids[sample] % unconditional.size()];
  }

  void write_token(ForwardContext& context, size_t sample, int32_t token) const {
    static constexpr float kLogit = kPlayedLogit;
    context.queue.copy(context.logits.as<float>() +
                           static_cast<int64_t>(sample) * context.logits.stride(0) + token,
                       &kLogit,
                       sizeof kLogit);
  }

  void write_row(ForwardContext& context, size_t sample, float value) const {
    const std::vector<float> row(static_cast<size_t>(options_.vocab_size), value);
    context.queue.copy(
        context.logits.as<float>() + static_cast<int64_t>(sample) * context.logits.stride(0),
        row.data(),
        row.size() * sizeof(float));
    wait(context.queue);
  }

  ScriptedOptions options_;
  BlockLayout layout_;
  ModelConfig config_;
};

// --- reading ---------------------------------------------------------------------------------

Error config_error(const std::string& where, const std::string& what) {
  return invalid_argument(where + ": " + what);
}

// Bytes to token ids: the table in byte_token_ids, or the byte's own value.
struct ByteTokens {
  std::array<int32_t, 256> ids{};
};

Result<std::vector<int32_t>> read_tokens(const Json& value,
                                         const ByteTokens& bytes,
                                         int64_t vocab_size,
                                         const std::string& where) {
  std::vector<int32_t> tokens;
  if (value.is_string()) {
    for (const char c : value.get<std::string>()) {
      tokens.push_back(bytes.ids[static_cast<uint8_t>(c)]);
    }
  } else if (value.is_array()) {
    for (const Json& token : value) {
      if (!token.is_number_integer()) {
        return config_error(where, "expected token ids, got " + dump_json(token));
      }
      tokens.push_back(token.get<int32_t>());
    }
  } else {
    return config_error(where, "expected a string or a list of token ids");
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab_size) {
      return config_error(where,
                          "token " + std::to_string(token) + " is outside the vocabulary of " +
                              std::to_string(vocab_size));
    }
  }
  return tokens;
}

Result<Script> read_script(const Json& value,
                           const ByteTokens& bytes,
                           int64_t vocab_size,
                           const std::string& where) {
  Script script;
  const bool is_object = value.is_object();
  if (is_object && !value.contains("play")) return config_error(where, "expected a key 'play'");
  auto tokens = read_tokens(is_object ? value["play"] : value, bytes, vocab_size, where);
  if (!tokens) return tokens.error();
  script.tokens = *std::move(tokens);
  if (!is_object) return script;
  for (const auto& [key, item] : value.items()) {
    if (key == "play") continue;
    if (key == "when") {
      auto when = read_tokens(item, bytes, vocab_size, where + ".when");
      if (!when) return when.error();
      script.when = *std::move(when);
    } else if ((key == "nan_at" || key == "inf_at") && item.is_number_integer()) {
      (key == "nan_at" ? script.nan_at : script.inf_at) = item.get<int32_t>();
    } else if (key == "throw_at" && item.is_number_integer()) {
      script.throw_at = item.get<int32_t>();
    } else {
      return config_error(where, "unknown or ill-typed key '" + key + "'");
    }
  }
  return script;
}

Status read_scripts(const Json& list,
                    const ByteTokens& bytes,
                    const std::string& where,
                    ScriptedOptions& options) {
  if (!list.is_array()) return config_error(where, "expected a list of scripts");
  for (size_t i = 0; i < list.size(); ++i) {
    auto script =
        read_script(list[i], bytes, options.vocab_size, where + "[" + std::to_string(i) + "]");
    if (!script) return script.error();
    options.scripts.push_back(*std::move(script));
  }
  return {};
}

Result<ByteTokens> read_byte_tokens(const Json& config, const std::string& where) {
  ByteTokens bytes;
  for (size_t i = 0; i < bytes.ids.size(); ++i) bytes.ids[i] = static_cast<int32_t>(i);
  if (!config.contains("byte_token_ids")) return bytes;
  const Json& ids = config["byte_token_ids"];
  if (!ids.is_array() || ids.size() != bytes.ids.size()) {
    return config_error(where, "byte_token_ids: expected 256 token ids");
  }
  for (size_t i = 0; i < bytes.ids.size(); ++i) {
    if (!ids[i].is_number_integer())
      return config_error(where, "byte_token_ids: expected integers");
    bytes.ids[i] = ids[i].get<int32_t>();
  }
  return bytes;
}

Result<ScriptedMode> read_mode(const Json& config, const std::string& where) {
  if (!config.contains("mode")) return ScriptedMode::kScript;
  const Json& mode = config["mode"];
  if (mode == "script") return ScriptedMode::kScript;
  if (mode == "copy") return ScriptedMode::kCopy;
  if (mode == "history") return ScriptedMode::kHistory;
  return config_error(where, "mode: expected script, copy or history, got " + dump_json(mode));
}

Result<int64_t> read_positive(const Json& config,
                              const char* key,
                              int64_t fallback,
                              const std::string& where) {
  if (!config.contains(key)) {
    if (fallback > 0) return fallback;
    return config_error(where, std::string("expected a key '") + key + "'");
  }
  if (!config[key].is_number_integer() || config[key].get<int64_t>() <= 0) {
    return config_error(
        where, std::string(key) + ": expected a positive integer, got " + dump_json(config[key]));
  }
  return config[key].get<int64_t>();
}

Result<double> read_delay(const Json& config, const char* key, const std::string& where) {
  if (!config.contains(key)) return 0.0;
  if (!config[key].is_number() || config[key].get<double>() < 0.0) {
    return config_error(where, std::string(key) + ": expected milliseconds >= 0");
  }
  return config[key].get<double>();
}

Status read_eos(const Json& config, const std::string& where, ScriptedOptions& options) {
  if (!config.contains("eos_token_id")) return {};
  const Json& eos = config["eos_token_id"];
  const Json list = eos.is_array() ? eos : Json::array({eos});
  auto ids = read_tokens(list, {}, options.vocab_size, where + ": eos_token_id");
  if (!ids) return ids.error();
  options.eos_token_ids = *std::move(ids);
  return {};
}

}  // namespace

Result<ScriptedOptions> read_scripted_options(const std::string& folder) {
  const std::string where = folder + "/config.json";
  auto parsed = read_json_file(where);
  if (!parsed) return parsed.error();
  const Json& config = *parsed;
  if (!config.is_object() || config.value("model_type", "") != "scripted") {
    return config_error(where, "model_type: expected scripted");
  }
  ScriptedOptions options;
  auto vocab = read_positive(config, "vocab_size", 0, where);
  if (!vocab) return vocab.error();
  options.vocab_size = *vocab;
  auto positions = read_positive(config, "max_position_embeddings", 8192, where);
  if (!positions) return positions.error();
  options.max_position_embeddings = *positions;
  auto mode = read_mode(config, where);
  if (!mode) return mode.error();
  options.mode = *mode;
  if (Status status = read_eos(config, where, options); !status) return status.error();
  auto step = read_delay(config, "step_delay_ms", where);
  if (!step) return step.error();
  options.step_delay_ms = *step;
  auto prefill = read_delay(config, "prefill_token_delay_ms", where);
  if (!prefill) return prefill.error();
  options.prefill_token_delay_ms = *prefill;

  auto bytes = read_byte_tokens(config, where);
  if (!bytes) return bytes.error();
  if (config.contains("scripts")) {
    Status status = read_scripts(config["scripts"], *bytes, where + ": scripts", options);
    if (!status) return status.error();
  }
  if (config.contains("script_file")) {
    if (!config["script_file"].is_string()) {
      return config_error(where, "script_file: expected a file name");
    }
    const std::string path = folder + "/" + config["script_file"].get<std::string>();
    auto file = read_json_file(path);
    if (!file) return file.error();
    if (Status status = read_scripts(*file, *bytes, path, options); !status) return status.error();
  }
  return options;
}

std::unique_ptr<Model> make_scripted_model(ScriptedOptions options) {
  return std::make_unique<ScriptedModel>(std::move(options));
}

Result<std::unique_ptr<Model>> load_scripted_model(const std::string& folder) {
  auto options = read_scripted_options(folder);
  if (!options) return options.error();
  return make_scripted_model(*std::move(options));
}

int32_t scripted_history_token(const ScriptedOptions& options, const std::vector<int32_t>& tokens) {
  uint64_t state = hash_tokens(0, tokens);
  for (;;) {
    const auto token = static_cast<int32_t>(state % static_cast<uint64_t>(options.vocab_size));
    if (std::ranges::find(options.eos_token_ids, token) == options.eos_token_ids.end()) {
      return token;
    }
    state = hash_mix(state, 1);
  }
}

}  // namespace baton
