// config.json of the scripted model: docs/how_to/scripted_model.md.
#include <array>
#include <string>
#include <utility>

#include "base/json.h"
#include "model/architectures/scripted.h"

namespace baton {
namespace {

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

// An integer of [least, most], or `fallback` when the key is absent.
Result<int32_t> read_bounded(const Json& config,
                             const char* key,
                             int32_t fallback,
                             int32_t least,
                             int32_t most,
                             const std::string& where) {
  if (!config.contains(key)) return fallback;
  const Json& value = config[key];
  if (value.is_number_integer() && value >= least && value <= most) return value.get<int32_t>();
  return config_error(where,
                      std::string(key) + ": expected an integer in " + std::to_string(least) +
                          ".." + std::to_string(most) + ", got " + dump_json(value));
}

Status read_pace(const Json& config, const std::string& where, ScriptedOptions& options) {
  auto step = read_delay(config, "step_delay_ms", where);
  if (!step) return step.error();
  options.step_delay_ms = *step;
  auto prefill = read_delay(config, "prefill_token_delay_ms", where);
  if (!prefill) return prefill.error();
  options.prefill_token_delay_ms = *prefill;
  auto tokens = read_bounded(config, "tokens_per_step", 1, 1, kMaxTokensPerStep, where);
  if (!tokens) return tokens.error();
  options.tokens_per_step = *tokens;
  auto wrong = read_bounded(config, "wrong_draft_every", 0, 0, 1 << 20, where);
  if (!wrong) return wrong.error();
  options.wrong_draft_every = *wrong;
  return {};
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
  if (Status status = read_pace(config, where, options); !status) return status.error();

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

}  // namespace baton
