#include "server/openai/request_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "server/json_text.h"

namespace baton {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr size_t kMaxStopStrings = 64;
constexpr size_t kMaxNamedUnknown = 20;

void read_float(Fields& fields, std::string_view name, double least, double most, float& value) {
  if (const auto given = fields.number(name, least, most)) {
    value = static_cast<float>(std::min(*given, 3.0e38));
  }
}

void read_sampling(Fields& fields, const ServedModel& model, SamplingParams& sampling) {
  read_float(fields, "temperature", 0.0, kUnbounded, sampling.temperature);
  read_float(fields, "top_p", 0.0, 1.0, sampling.top_p);
  if (sampling.top_p <= 0.0F) fields.fail("top_p", "expected more than 0, at most 1");
  read_float(fields, "min_p", 0.0, 1.0, sampling.min_p);
  read_float(fields, "presence_penalty", -2.0, 2.0, sampling.presence_penalty);
  read_float(fields, "frequency_penalty", -2.0, 2.0, sampling.frequency_penalty);
  read_float(fields, "repetition_penalty", 0.0, kUnbounded, sampling.repetition_penalty);
  if (sampling.repetition_penalty <= 0.0F) {
    fields.fail("repetition_penalty", "expected more than 0");
  }
  if (const auto top_k = fields.integer("top_k", -1, kMaxInt32)) {
    sampling.top_k = static_cast<int32_t>(*top_k);
  }
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) {
    sampling.seed = static_cast<uint64_t>(*seed);
  }
  if (const auto tokens = fields.integer("min_tokens", 0, model.max_model_len)) {
    sampling.min_tokens = static_cast<int32_t>(*tokens);
  }
  sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
}

void read_stop_token_ids(Fields& fields, const ServedModel& model, SamplingParams& sampling) {
  const Json* ids = fields.any("stop_token_ids");
  if (ids == nullptr) return;
  if (!ids->is_array()) {
    fields.fail("stop_token_ids", "expected a list of token ids");
    return;
  }
  for (const Json& id : *ids) {
    if (!id.is_number_integer() || id < 0 || id >= model.vocab_size) {
      fields.fail("stop_token_ids",
                  "expected token ids of 0 to " + std::to_string(model.vocab_size - 1));
      return;
    }
    sampling.stop_token_ids.push_back(id.get<int32_t>());
  }
}

// {"50256": -100}: token ids as keys.
void read_logit_bias(Fields& fields, const ServedModel& model, SamplingParams& sampling) {
  const Json* biases = fields.any("logit_bias");
  if (biases == nullptr) return;
  if (!biases->is_object()) {
    fields.fail("logit_bias", "expected an object of token ids and biases");
    return;
  }
  for (const auto& [key, bias] : biases->items()) {
    const bool digits =
        !key.empty() && key.size() <= 9 && key.find_first_not_of("0123456789") == std::string::npos;
    const int32_t id = digits ? static_cast<int32_t>(std::stol(key)) : -1;
    if (id < 0 || id >= model.vocab_size) {
      fields.fail(
          "logit_bias",
          "expected token ids of 0 to " + std::to_string(model.vocab_size - 1) + " as keys");
      return;
    }
    if (!bias.is_number() || std::abs(bias.get<double>()) > 100.0) {
      fields.fail("logit_bias", "expected biases of -100 to 100");
      return;
    }
    sampling.logit_bias[id] = bias.get<float>();
  }
}

void read_stop(Fields& fields, ChoiceTextOptions& text) {
  text.include_stop = fields.boolean("include_stop_str_in_output").value_or(false);
  text.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  const Json* stop = fields.any("stop");
  if (stop == nullptr) return;
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  if (list.size() > kMaxStopStrings) {
    fields.fail("stop", "expected at most " + std::to_string(kMaxStopStrings) + " strings");
    return;
  }
  for (const Json& text_of_stop : list) {
    if (!text_of_stop.is_string() || text_of_stop.get_ref<const std::string&>().empty()) {
      fields.fail("stop", "expected a non-empty string or a list of them");
      return;
    }
    text.stop.push_back(text_of_stop.get<std::string>());
  }
}

void read_stream_options(Fields& fields, RequestOptions& options) {
  options.stream = fields.boolean("stream").value_or(false);
  const Json* stream_options = fields.any("stream_options");
  if (stream_options == nullptr) return;
  if (!stream_options->is_object()) {
    fields.fail("stream_options", "expected an object");
    return;
  }
  if (!options.stream) {
    fields.fail("stream_options", "only allowed with stream true");
    return;
  }
  Fields nested(*stream_options, "stream_options");
  options.include_usage = nested.boolean("include_usage").value_or(false);
  options.continuous_usage =
      options.include_usage && nested.boolean("continuous_usage_stats").value_or(false);
  nested.accept({"continuous_usage_stats", "include_obfuscation"});
  fields.adopt(nested);
}

// What clients send for "nothing": null, false, "", [] or {}.
bool asks_for_nothing(const Json& value) {
  return value == false || value == "" || value.empty();
}

struct Unsupported {
  std::string_view name;
  std::string_view reason;
};
constexpr std::string_view kNoConstraints = "constrained output is not supported";
constexpr std::array kUnsupported = {
    Unsupported{"structured_outputs", kNoConstraints},
    Unsupported{"guided_json", kNoConstraints},
    Unsupported{"guided_regex", kNoConstraints},
    Unsupported{"guided_choice", kNoConstraints},
    Unsupported{"guided_grammar", kNoConstraints},
    Unsupported{"allowed_token_ids", "is not supported"},
    Unsupported{"bad_words", "is not supported; logit_bias of -100 keeps single tokens away"},
    Unsupported{"logits_processors", "is not supported"},
    Unsupported{"use_beam_search", "is not supported"},
    Unsupported{"prompt_embeds", "is not supported"},
    Unsupported{"chat_template", "is not taken from requests; see baton serve --chat-template"},
    Unsupported{"functions", "is not supported; use tools"},
    Unsupported{"function_call", "is not supported; use tool_choice"},
    Unsupported{"audio", "only text is supported"},
    Unsupported{"suffix", "is not supported"},
};

// An answer without them would look right.
void refuse_unsupported(Fields& fields) {
  for (const Unsupported& field : kUnsupported) {
    const Json* value = fields.any(field.name);
    if (value != nullptr && !asks_for_nothing(*value)) {
      fields.fail(field.name, std::string(field.reason));
    }
  }
  if (const Json* format = fields.any("response_format")) {
    if (!format->is_object() || format->value("type", Json()) != "text") {
      fields.fail("response_format", "only {\"type\":\"text\"} is supported");
    }
  }
  const Json* modalities = fields.any("modalities");
  if (modalities != nullptr && *modalities != Json::array({"text"})) {
    fields.fail("modalities", "only [\"text\"] is supported");
  }
}

void read_keep_prompt(Fields& fields, const ServedModel& model, RequestOptions& options) {
  options.keep_prompt = fields.integer("truncate_prompt_tokens", -1, model.max_model_len - 1);
  if (options.keep_prompt == 0) {
    fields.fail("truncate_prompt_tokens", "expected -1 or the number of tokens to keep, got 0");
  }
}

}  // namespace

RequestOptions read_request_options(Fields& fields, const ServedModel& model) {
  RequestOptions options;
  options.sampling = model.defaults;
  read_sampling(fields, model, options.sampling);
  read_stop_token_ids(fields, model, options.sampling);
  read_logit_bias(fields, model, options.sampling);
  read_stop(fields, options.text);
  options.text.stop_token_ids = options.sampling.stop_token_ids;
  read_stream_options(fields, options);
  options.choices = static_cast<int>(fields.integer("n", 1, 128).value_or(1));
  options.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  options.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  read_keep_prompt(fields, model, options);
  refuse_unsupported(fields);
  options.cache_salt = fields.string("cache_salt").value_or("");
  options.priority =
      static_cast<int32_t>(fields.integer("priority", -kMaxInt32, kMaxInt32).value_or(0));
  fields.accept({"user",
                 "metadata",
                 "store",
                 "service_tier",
                 "prompt_cache_key",
                 "prompt_cache_retention",
                 "prediction",
                 "safety_identifier",
                 "spaces_between_special_tokens"});
  return options;
}

void shorten_prompt(std::vector<int32_t>& ids,
                    const RequestOptions& options,
                    std::optional<int64_t> max_tokens,
                    const ServedModel& model) {
  if (!options.keep_prompt) return;
  const int64_t answer = std::clamp<int64_t>(max_tokens.value_or(1), 1, model.max_model_len - 1);
  const int64_t keep =
      *options.keep_prompt < 0 ? model.max_model_len - answer : *options.keep_prompt;
  const auto length = static_cast<int64_t>(ids.size());
  if (length > keep) ids.erase(ids.begin(), ids.begin() + (length - keep));
}

ApiError context_exceeded(const std::string& size,
                          const std::string& param,
                          const ServedModel& model) {
  return {
      invalid_argument(
          "this model's maximum context length is " + std::to_string(model.max_model_len) +
          " tokens; the prompt has " + size +
          ", and at least one token of the answer must fit behind it (context_length_exceeded)"),
      param,
      "context_length_exceeded"};
}

std::optional<ApiError> fit_tokens(const std::string& param,
                                   size_t prompt_tokens,
                                   std::optional<int64_t> asked,
                                   const ServedModel& model,
                                   SamplingParams& sampling) {
  const int64_t room = model.max_model_len - static_cast<int64_t>(prompt_tokens);
  if (room < 1) return context_exceeded(std::to_string(prompt_tokens) + " tokens", param, model);
  if (asked && sampling.min_tokens > *asked) {
    return ApiError{
        invalid_argument("min_tokens: expected at most max_tokens, " + std::to_string(*asked) +
                         ", got " + std::to_string(sampling.min_tokens)),
        "min_tokens"};
  }
  sampling.max_tokens = static_cast<int32_t>(std::min(asked.value_or(room), room));
  sampling.min_tokens = std::min(sampling.min_tokens, sampling.max_tokens);
  return std::nullopt;
}

void add_choices(GenerationPlan& plan,
                 const std::vector<int32_t>& prompt,
                 const SamplingParams& sampling,
                 int n) {
  for (int i = 0; i < n; ++i) {
    GenerationPlan::Choice choice{.prompt = prompt, .sampling = sampling};
    if (sampling.seed) choice.sampling.seed = *sampling.seed + static_cast<uint64_t>(i);
    choice.counts_prompt = i == 0;
    plan.choices.push_back(std::move(choice));
  }
}

size_t max_prompt_bytes(const ServedModel& model) {
  static constexpr size_t kLongestToken = 256;  // longer ones are runs of blanks at most
  return static_cast<size_t>(model.max_model_len) * kLongestToken;
}

UnknownFields check_unknown(const Fields& fields, bool strict) {
  UnknownFields result;
  const std::vector<std::string> names = fields.unknown();
  if (names.empty()) return result;
  const size_t named = std::min(names.size(), kMaxNamedUnknown);
  std::string list;
  for (size_t i = 0; i < named; ++i) {
    list += (list.empty() ? "" : ", ") + names[i];
    result.warnings.push_back("unknown field '" + names[i] + "' was ignored");
  }
  if (const size_t more = names.size() - named; more > 0) {
    list += ", and " + std::to_string(more) + " more";
    result.warnings.push_back(std::to_string(more) + " more unknown fields were ignored");
  }
  if (strict) {
    result.error = ApiError{invalid_argument("unknown field: " + list.substr(0, 300)), names[0]};
  }
  std::string header;
  for (const char c : list.substr(0, 300)) header += c >= ' ' && c < 127 ? c : '?';
  result.headers.emplace_back("x-baton-unknown-fields", header);
  return result;
}

void append_warnings(std::string& out, const std::vector<std::string>& warnings) {
  if (warnings.empty()) return;
  out += ",\"warnings\":[";
  for (size_t i = 0; i < warnings.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, warnings[i]);
  }
  out += ']';
}

}  // namespace baton
