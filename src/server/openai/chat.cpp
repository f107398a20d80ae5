#include "server/openai/chat.h"

#include <algorithm>
#include <iterator>

#include "server/openai/api_call.h"
#include "server/openai/chat_messages.h"
#include "server/openai/chat_writer.h"
#include "server/openai/request_options.h"
#include "text/output_choice.h"

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

struct ToolWishes {
  bool parse = false;     // look for calls in the answer
  bool one_call = false;  // the first one ends it
};

bool offers(const Conversation& prompt, const Json& name) {
  return std::any_of(prompt.tools.begin(), prompt.tools.end(), [&](const Json& tool) {
    return tool["function"]["name"] == name;
  });
}

// {"type":"function","function":{"name":...}}, or the flat form of the Responses API.
void check_named_choice(Fields& fields, const Json& choice, const Conversation& prompt) {
  const Json function = choice.value("function", choice);
  const Json name = function.is_object() ? function.value("name", Json()) : Json();
  if (!name.is_string()) {
    fields.fail("tool_choice", "expected none, auto, required or a function with its name");
  } else if (!offers(prompt, name)) {
    fields.fail("tool_choice", "no tool is named " + name.get<std::string>().substr(0, 100));
  }
}

ToolWishes read_tool_wishes(Fields& fields,
                            const Conversation& prompt,
                            std::vector<std::string>& warnings) {
  ToolWishes wishes;
  wishes.one_call = !fields.boolean("parallel_tool_calls").value_or(true);
  const Json* given = fields.any("tool_choice");
  const Json choice = given == nullptr ? Json("auto") : *given;
  if (choice == "none") return wishes;
  if (prompt.tools.is_null()) {
    if (choice != "auto") fields.fail("tool_choice", "only allowed with tools");
    return wishes;
  }
  wishes.parse = true;
  if (choice == "auto") return wishes;
  if (choice.is_object()) {
    check_named_choice(fields, choice, prompt);
  } else if (choice != "required") {
    fields.fail("tool_choice", "expected none, auto, required or a function with its name");
  }
  warnings.emplace_back("tool_choice: a call is not enforced");
  return wishes;
}

// What the answer may not keep, though it looks as if it did.
void warn_of_tools(const ServedModel& model,
                   const Conversation& prompt,
                   std::vector<std::string>& warnings) {
  if (model.tool_calls == nullptr) {
    warnings.emplace_back("tools: no format of tool calls is known; a call stays in the content");
  }
  const bool strict = std::any_of(prompt.tools.begin(), prompt.tools.end(), [](const Json& tool) {
    return tool["function"].value("strict", Json()) == true;
  });
  if (strict) warnings.emplace_back("tools: strict is not enforced");
}

OutputParserOptions parser_options(const ServedModel& model,
                                   const Conversation& prompt,
                                   const std::vector<int32_t>& ids,
                                   bool tool_calls) {
  OutputParserOptions options;
  options.reasoning = model.parse_reasoning;
  options.begins_in_reasoning = ends_in_reasoning(*model.tokenizer, model.tags, ids);
  options.tags = model.tags;
  if (!tool_calls) return options;
  options.calls = &model.tool_calls->syntax();
  for (const Json& tool : prompt.tools) {
    const Json& function = tool["function"];
    options.tools.emplace_back(function["name"].get<std::string>(),
                               function.value("parameters", Json::object()));
  }
  return options;
}

struct ChatRequest {
  Conversation prompt;
  size_t text_bytes = 0;  // of the prompt's messages
  RequestOptions options;
  std::optional<int64_t> max_tokens;
  bool include_reasoning = true;
  ToolWishes tools;
  HttpHeaders headers;                // of the answer
  std::vector<std::string> warnings;  // in the answer
};

std::optional<ApiError> read_chat(const Json& body, const Service& service, ChatRequest& request) {
  const ServedModel& model = *service.model();
  Fields fields(body);
  if (auto error = read_model_name(fields, service)) return error;
  request.prompt = read_chat_prompt(fields, request.text_bytes);
  request.options = read_request_options(fields, model);
  request.max_tokens = read_max_tokens(fields);
  read_logprobs(fields, request.options.sampling);
  request.include_reasoning = fields.boolean("include_reasoning").value_or(true);
  request.tools = read_tool_wishes(fields, request.prompt, request.warnings);
  if (request.tools.parse) warn_of_tools(model, request.prompt, request.warnings);
  if (fields.error()) return fields.error();
  UnknownFields unknown = check_unknown(fields, service.options().strict_requests);
  request.headers = std::move(unknown.headers);
  std::move(unknown.warnings.begin(), unknown.warnings.end(), std::back_inserter(request.warnings));
  return unknown.error;
}

// The prompt's tokens, which fit the context; sets max_tokens of the sampling.
std::optional<ApiError> encode_prompt(const ServedModel& model,
                                      ChatRequest& request,
                                      std::vector<int32_t>& ids) {
  if (!model.chat_prompt) {
    return ApiError{invalid_argument("the model has no chat template; use /v1/completions")};
  }
  if (request.text_bytes > max_prompt_bytes(model)) {
    return context_exceeded(std::to_string(request.text_bytes) + " bytes", "messages", model);
  }
  Result<std::vector<int32_t>> encoded = model.chat_prompt(request.prompt);
  if (!encoded) return ApiError{encoded.error(), "messages"};
  ids = std::move(*encoded);
  shorten_prompt(ids, request.options, request.max_tokens, model);
  return fit_tokens("messages", ids.size(), request.max_tokens, model, request.options.sampling);
}

GenerationPlan plan_of(const ServedModel& model,
                       const ChatRequest& request,
                       const std::vector<int32_t>& ids) {
  const RequestOptions& options = request.options;
  GenerationPlan plan;
  plan.text = options.text;
  const bool calls = request.tools.parse && model.tool_calls != nullptr;
  if (model.parse_reasoning || calls) {
    plan.text.parser = parser_options(model, request.prompt, ids, calls);
    plan.text.one_call = request.tools.one_call;
  }
  plan.cache_salt = options.cache_salt;
  plan.priority = options.priority;
  plan.stream = options.stream;
  plan.headers = request.headers;
  add_choices(plan, ids, options.sampling, options.choices);
  return plan;
}

std::optional<ApiError> answer_chat(Service& service,
                                    const std::shared_ptr<Exchange>& exchange,
                                    const Json& body,
                                    RequestRecord record) {
  const ServedModel& model = *service.model();
  ChatRequest request;
  std::vector<int32_t> ids;
  if (auto error = read_chat(body, service, request)) return error;
  if (auto error = encode_prompt(model, request, ids)) return error;
  GenerationPlan plan = plan_of(model, request, ids);
  const RequestOptions& options = request.options;
  ChatAnswer answer;
  answer.options = {options.sampling.logprobs,
                    options.include_usage,
                    options.continuous_usage,
                    options.return_token_ids,
                    options.tokens_as_ids,
                    request.include_reasoning};
  answer.choices = plan.choices.size();
  if (options.return_token_ids) answer.prompt = std::move(ids);
  AnswerHead head{"chatcmpl-" + record.id,
                  service.options().model_names[0],
                  unix_seconds(),
                  std::move(request.warnings)};
  plan.writer = make_chat_writer(service, std::move(head), std::move(answer), options.stream);
  Generation::start(service, exchange, std::move(plan), std::move(record));
  return std::nullopt;
}

}  // namespace

void handle_chat(Service& service, const std::shared_ptr<Exchange>& exchange) {
  run_api_call(service, exchange, "chat", &answer_chat);
}

}  // namespace baton
