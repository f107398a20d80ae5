#include "server/openai/completions.h"

#include <span>

#include "server/openai/api_call.h"
#include "server/openai/completion_writer.h"
#include "server/openai/request_options.h"

namespace baton {
namespace {

constexpr int64_t kDefaultMaxTokens = 16;  // OpenAI's, when the field is absent
constexpr int64_t kMaxLogprobs = 20;
constexpr size_t kMaxPrompts = 256;

struct Prompt {
  std::vector<int32_t> ids;
  std::string text;   // as given; decoded when ids were given
  size_t hidden = 0;  // of ids: the tokenizer's prefix, where the text does not begin with it
};

std::string decoded(std::span<const int32_t> ids, const ServedModel& model) {
  return model.tokenizer->decode(ids, /*skip_special=*/false);
}

bool is_id_list(const Json& value) {
  return value.is_array() && !value.empty() && value[0].is_number();
}

bool read_ids(const Json& list, const ServedModel& model, Fields& fields, Prompt& prompt) {
  for (const Json& id : list) {
    if (!id.is_number_integer() || id < 0 || id >= model.vocab_size) {
      fields.fail("prompt", "expected token ids of 0 to " + std::to_string(model.vocab_size - 1));
      return false;
    }
    prompt.ids.push_back(id.get<int32_t>());
  }
  prompt.text = decoded(prompt.ids, model);
  return true;
}

bool read_text(const std::string& text,
               const ServedModel& model,
               bool add_special,
               Fields& fields,
               Prompt& prompt) {
  if (text.size() > max_prompt_bytes(model)) {
    fields.fail(context_exceeded(std::to_string(text.size()) + " bytes", "prompt", model));
    return false;
  }
  prompt.text = text;
  prompt.ids = model.tokenizer->encode(
      text, SpecialTokens::kRecognise, add_special ? Prefix::kAdd : Prefix::kNone);
  const std::span<const int32_t> prefix = model.tokenizer->prefix();
  if (add_special && !text.starts_with(decoded(prefix, model))) prompt.hidden = prefix.size();
  return true;
}

bool read_prompt(const Json& value,
                 const ServedModel& model,
                 bool add_special,
                 Fields& fields,
                 std::vector<Prompt>& prompts) {
  Prompt prompt;
  const bool ok =
      value.is_string()
          ? read_text(value.get_ref<const std::string&>(), model, add_special, fields, prompt)
          : read_ids(value, model, fields, prompt);
  if (!ok) return false;
  if (prompt.ids.empty()) {
    fields.fail("prompt", "is empty: at least one token is needed");
    return false;
  }
  prompts.push_back(std::move(prompt));
  return true;
}

// A string, a list of strings, a list of token ids, or a list of such lists.
std::vector<Prompt> read_prompts(Fields& fields, const ServedModel& model) {
  std::vector<Prompt> prompts;
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  const Json* given = fields.any("prompt");
  if (given == nullptr || !(given->is_string() || given->is_array()) || given->empty()) {
    fields.fail("prompt", "expected a string, a list of strings, or token ids");
    return prompts;
  }
  if (given->is_string() || is_id_list(*given)) {
    read_prompt(*given, model, add_special, fields, prompts);
    return prompts;
  }
  if (given->size() > kMaxPrompts) {
    fields.fail("prompt", "expected at most " + std::to_string(kMaxPrompts) + " prompts");
    return prompts;
  }
  for (const Json& one : *given) {
    if (!one.is_string() && !one.is_array()) {
      fields.fail("prompt", "expected strings or lists of token ids");
      return prompts;
    }
    if (!read_prompt(one, model, add_special, fields, prompts)) return prompts;
  }
  return prompts;
}

std::optional<int64_t> read_max_tokens(Fields& fields) {
  const auto given = fields.integer("max_tokens", 0, INT64_MAX);
  if (given) return given;
  return fields.is_null("max_tokens") ? std::nullopt : std::optional<int64_t>(kDefaultMaxTokens);
}

// best_of would generate more choices than it returns.
void read_best_of(Fields& fields, const RequestOptions& options) {
  const auto best_of = fields.integer("best_of", 1, 128);
  if (best_of.value_or(1) != 1 && best_of != options.choices) {
    fields.fail("best_of", "only supported where it equals n");
  }
}

// A logprob of every prompt token but the first is only shown beside echo.
void read_logprobs(Fields& fields, bool echo, SamplingParams& sampling) {
  if (const auto count = fields.integer("logprobs", 0, kMaxLogprobs)) {
    sampling.logprobs = static_cast<int32_t>(*count);
    if (echo) sampling.prompt_logprobs = sampling.logprobs;
  }
}

std::optional<ApiError> add_prompt(GenerationPlan& plan,
                                   CompletionAnswer& answer,
                                   Prompt& prompt,
                                   const RequestOptions& options,
                                   std::optional<int64_t> max_tokens,
                                   const ServedModel& model) {
  SamplingParams sampling = options.sampling;
  if (const size_t length = prompt.ids.size(); options.keep_prompt) {
    shorten_prompt(prompt.ids, options, max_tokens, model);
    if (prompt.ids.size() < length) {
      prompt.text = decoded(prompt.ids, model);
      prompt.hidden = 0;
    }
  }
  if (auto error = fit_tokens("prompt", prompt.ids.size(), max_tokens, model, sampling)) {
    return error;
  }
  // Nothing asked for: one token is computed for the prompt's sake, and not shown.
  const bool discard = sampling.max_tokens == 0;
  if (discard) sampling.max_tokens = 1;
  if (discard) sampling.logprobs = -1;
  const size_t before = plan.choices.size();
  add_choices(plan, prompt.ids, sampling, options.choices);
  const bool needs_ids = options.return_token_ids || sampling.prompt_logprobs >= 0;
  for (size_t i = before; i < plan.choices.size(); ++i) {
    plan.choices[i].discard_output = discard;
    answer.prompts.push_back({answer.echo ? prompt.text : std::string(),
                              needs_ids ? prompt.ids : std::vector<int32_t>(),
                              prompt.hidden});
  }
  return std::nullopt;
}

std::optional<ApiError> answer_completion(Service& service,
                                          const std::shared_ptr<Exchange>& exchange,
                                          const Json& body,
                                          RequestRecord record) {
  const ServedModel& model = *service.model();
  Fields fields(body);
  if (auto error = read_model_name(fields, service)) return error;
  RequestOptions options = read_request_options(fields, model);
  const auto max_tokens = read_max_tokens(fields);
  CompletionAnswer answer;
  answer.echo = fields.boolean("echo").value_or(false);
  read_logprobs(fields, answer.echo, options.sampling);
  read_best_of(fields, options);
  if (fields.error()) return fields.error();
  std::vector<Prompt> prompts = read_prompts(fields, model);
  if (fields.error()) return fields.error();
  UnknownFields unknown = check_unknown(fields, service.options().strict_requests);
  if (unknown.error) return unknown.error;

  GenerationPlan plan;
  for (Prompt& prompt : prompts) {
    if (auto error = add_prompt(plan, answer, prompt, options, max_tokens, model)) return error;
  }
  plan.text = options.text;
  plan.cache_salt = options.cache_salt;
  plan.priority = options.priority;
  plan.stream = options.stream;
  plan.headers = std::move(unknown.headers);
  answer.skip_special_tokens = options.text.skip_special_tokens;
  answer.options = {options.sampling.logprobs,
                    options.include_usage,
                    options.continuous_usage,
                    options.return_token_ids,
                    options.tokens_as_ids};
  AnswerHead head{"cmpl-" + record.id,
                  service.options().model_names[0],
                  unix_seconds(),
                  std::move(unknown.warnings)};
  plan.writer =
      make_completion_writer(*model.tokenizer, std::move(head), std::move(answer), options.stream);
  Generation::start(service, exchange, std::move(plan), std::move(record));
  return std::nullopt;
}

}  // namespace

void handle_completions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  run_api_call(service, exchange, "completions", &answer_completion);
}

}  // namespace baton
