#include "speculative_flags.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/json.h"
#include "base/log.h"
#include "engine/speculation.h"

namespace baton {
namespace {

constexpr std::string_view kFlag = "speculative-config";
struct Key {
  const char* name;
  const char* help;
  int32_t SpeculationOptions::*number;  // null: text
};
constexpr std::array kKeys = {
    Key{"method", "ngram", nullptr},
    Key{"num_speculative_tokens", "drafts of a step", &SpeculationOptions::num_speculative_tokens},
    Key{"prompt_lookup_max", "longest run looked up", &SpeculationOptions::prompt_lookup_max},
    Key{"prompt_lookup_min", "shortest run looked up", &SpeculationOptions::prompt_lookup_min},
};

Error flag_error(const std::string& what) {
  return invalid_argument("--" + std::string(kFlag) + ": " + what);
}

// Both forms as one object; the dotted one counts.
Result<Json> merged(const SpeculativeFlags& flags) {
  Json config = Json::object();
  if (!flags.config.empty()) {
    auto parsed = parse_json(flags.config, "--" + std::string(kFlag));
    if (!parsed) return parsed.error();
    if (!parsed->is_object()) return flag_error("expected an object, got " + dump_json(*parsed));
    config = *std::move(parsed);
  }
  for (const auto& [key, text] : flags.values) {
    if (text.empty()) continue;
    int32_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = read.ec == std::errc() && read.ptr == text.data() + text.size();
    config[key] = is_number ? Json(number) : Json(text);
  }
  return config;
}

Status read_key(const std::string& name, const Json& value, SpeculationOptions& options) {
  const auto* key =
      std::ranges::find_if(kKeys, [&](const Key& known) { return name == known.name; });
  if (key == kKeys.end()) {
    return flag_error("unknown key '" + name + "'; expected method, num_speculative_tokens, " +
                      "prompt_lookup_max or prompt_lookup_min");
  }
  if (key->number == nullptr) return {};
  if (!value.is_number_integer() || value < 0 || value > 1 << 20) {
    return flag_error(name + ": expected a small whole number, got " + dump_json(value));
  }
  options.*key->number = value.get<int32_t>();
  return {};
}

}  // namespace

void add_speculative_options(CLI::App& app, SpeculativeFlags& flags) {
  const std::string name = "--" + std::string(kFlag);
  app.add_option(
      name, flags.config, "drafts that each step verifies, JSON: {\"method\": \"ngram\"}");
  for (const Key& key : kKeys) {
    app.add_option(name + "." + key.name, flags.values[key.name], key.help);
  }
}

Result<SpeculationOptions> read_speculation(const SpeculativeFlags& flags, bool compat) {
  auto config = merged(flags);
  if (!config) return config.error();
  SpeculationOptions options;
  if (config->empty()) return options;
  const Json method = config->contains("method") ? (*config)["method"] : Json("nothing");
  if (method != "ngram") {
    const std::string what = "method: expected ngram, got " + dump_json(method);
    if (!compat) return flag_error(what + "; with --compat it is passed over");
    log_warning("--" + std::string(kFlag) + " is ignored: " + what);
    return options;
  }
  options.method = DraftMethod::kNgram;
  for (const auto& [name, value] : config->items()) {
    if (Status status = read_key(name, value, options); !status) return status.error();
  }
  // As in vLLM, one of the two alone stands for both.
  if (!config->contains("prompt_lookup_min")) {
    options.prompt_lookup_min = options.prompt_lookup_max;
  } else if (!config->contains("prompt_lookup_max")) {
    options.prompt_lookup_max = options.prompt_lookup_min;
  }
  if (Status status = check_speculation(options); !status) {
    return flag_error(status.error().message);
  }
  return options;
}

}  // namespace baton
