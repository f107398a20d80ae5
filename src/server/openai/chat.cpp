#include "server/openai/chat.h"

#include "server/openai/api_call.h"
#include "server/openai/chat_messages.h"
#include "server/openai/chat_writer.h"
#include "server/openai/request_options.h"

namespace baton {
namespace {

constexpr int64_t kMaxLogprobs = 20;

// max_completion_tokens is the newer name and wins.
std::optional<int64_t> read_max_tokens(Fields& fields) {
  const auto older = fields.integer("max_tokens", 1, INT64_MAX);
  const auto newer = fields.integer("max_completion_tokens", 1, INT64_MAX);
  return newer ? newer : older;
}

void read_logprobs(Fields& fields, SamplingParams& sampling) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  if (top.value_or(0) > 0 && !wanted) fields.fail("top_logprobs", "only allowed with logprobs");
  if (wanted) sampling.logprobs = static_cast<int32_t>(top.value_or(0));
}

// What would need a grammar is refused: an answer without the constraint would look valid.
void refuse_constraints(Fields& fields) {
  if (const Json* format = fields.any("response_format")) {
    if (!format->is_object() || format->value("type", Json()) != "text") {
      fields.fail("response_format", "only {\"type\":\"text\"} is supported");
    }
  }
  for (const std::string_view name :
       {"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"}) {
    if (fields.any(name) != nullptr) fields.fail(name, "constrained output is not supported");
  }
}

// True when calls are to be parsed.
bool read_tool_choice(Fields& fields,
                      const Conversation& prompt,
                      std::vector<std::string>& warnings) {
  fields.accept({"parallel_tool_calls"});
  const Json* choice = fields.any("tool_choice");
  if (choice == nullptr) return !prompt.tools.is_null();
  if (*choice == "none") return false;
  if (prompt.tools.is_null()) {
    if (*choice != "auto") fields.fail("tool_choice", "only allowed with tools");
    return false;
  }
  if (*choice == "auto") return true;
  if (*choice != "required" && !choice->is_object()) {
    fields.fail("tool_choice", "expected none, auto, required or a function");
    return false;
  }
  warnings.emplace_back("tool_choice: a call is not enforced");
  return true;
}

OutputParserOptions parser_options(const ServedModel& model,
                                   const Conversation& prompt,
                                   const std::vector<int32_t>& ids,
                                   bool tool_calls) {
  OutputParserOptions options;
  options.reasoning = model.parse_reasoning;
  options.tool_calls = tool_calls && model.parse_tool_calls;
  options.tags_are_tokens = !model.tags.empty();
  // The prompt says whether it left a reasoning block open.
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    const auto tag = model.tags.find(*id);
    if (tag == model.tags.end()) continue;
    if (tag->second == OutputTag::kThinkOpen) options.begins_in_reasoning = true;
    if (tag->second == OutputTag::kThinkOpen || tag->second == OutputTag::kThinkClose) break;
  }
  if (!options.tool_calls) return options;
  for (const Json& tool : prompt.tools) {
    const Json& function = tool["function"];
    options.tools.emplace_back(function["name"].get<std::string>(),
                               function.value("parameters", Json::object()));
  }
  return options;
}

std::optional<ApiError> answer_chat(Service& service,
                                    const std::shared_ptr<Exchange>& exchange,
                                    const Json& body,
                                    RequestRecord record) {
  const ServedModel& model = *service.model();
  Fields fields(body);
  if (auto error = read_model_name(fields, service)) return error;
  size_t text_bytes = 0;
  const Conversation prompt = read_chat_prompt(fields, text_bytes);
  RequestOptions options = read_request_options(fields, model);
  const auto max_tokens = read_max_tokens(fields);
  read_logprobs(fields, options.sampling);
  refuse_constraints(fields);
  std::vector<std::string> warnings;
  const bool tool_calls = read_tool_choice(fields, prompt, warnings);
  if (tool_calls && !model.parse_tool_calls) {
    warnings.emplace_back("tools: no format of tool calls is known; a call stays in the content");
  }
  if (fields.error()) return fields.error();
  UnknownFields unknown = check_unknown(fields, service.options().strict_requests);
  if (unknown.error) return unknown.error;
  warnings.insert(warnings.end(), unknown.warnings.begin(), unknown.warnings.end());

  if (!model.chat_prompt) {
    return ApiError{invalid_argument("the model has no chat template; use /v1/completions")};
  }
  if (text_bytes > max_prompt_bytes(model)) {
    return ApiError{invalid_argument("messages: " + std::to_string(text_bytes) +
                                     " bytes cannot fit a context of " +
                                     std::to_string(model.max_model_len) + " tokens"),
                    "messages"};
  }
  Result<std::vector<int32_t>> ids = model.chat_prompt(prompt);
  if (!ids) return ApiError{ids.error(), "messages"};
  Result<int32_t> fitted = fit_max_tokens(ids->size(), max_tokens, model);
  if (!fitted) return ApiError{fitted.error(), "messages"};
  options.sampling.max_tokens = *fitted;
  if (auto error = fit_min_tokens(max_tokens, options.sampling)) return error;

  GenerationPlan plan;
  plan.text = options.text;
  if (model.parse_reasoning || (tool_calls && model.parse_tool_calls)) {
    plan.text.parser = parser_options(model, prompt, *ids, tool_calls);
    plan.text.tags = model.tags;
  }
  plan.cache_salt = options.cache_salt;
  plan.priority = options.priority;
  plan.stream = options.stream;
  plan.headers = std::move(unknown.headers);
  add_choices(plan, *ids, options.sampling, options.choices);
  AnswerHead head{"chatcmpl-" + record.id,
                  service.options().model_names[0],
                  unix_seconds(),
                  std::move(warnings)};
  plan.writer =
      make_chat_writer(service,
                       std::move(head),
                       {options.sampling.logprobs,
                        options.include_usage,
                        options.continuous_usage,
                        options.return_token_ids},
                       plan.choices.size(),
                       options.stream,
                       options.return_token_ids ? std::move(*ids) : std::vector<int32_t>(),
                       service.metrics());
  Generation::start(service, exchange, std::move(plan), std::move(record));
  return std::nullopt;
}

}  // namespace

void handle_chat(Service& service, std::shared_ptr<Exchange> exchange) {
  run_api_call(service, std::move(exchange), "chat", &answer_chat);
}

}  // namespace baton
