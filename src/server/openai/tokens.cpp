#include "server/openai/tokens.h"

#include "server/json_text.h"
#include "server/openai/answer_parts.h"
#include "server/openai/api_call.h"
#include "server/openai/chat_messages.h"
#include "server/openai/request_options.h"

namespace baton {
namespace {

void finish(Service& service,
            Exchange& exchange,
            RequestRecord record,
            UnknownFields unknown,
            std::string body) {
  record.reason = EndReason::kStop;
  record.times.end_to_end =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - record.arrival).count();
  exchange.respond({.body = std::move(body), .headers = std::move(unknown.headers)});
  service.finished(record);
}

Result<std::vector<int32_t>> encode_request(Fields& fields, const ServedModel& model) {
  if (const auto text = fields.string("prompt")) {
    const bool add_special = fields.boolean("add_special_tokens").value_or(true);
    return model.tokenizer->encode(
        *text, SpecialTokens::kRecognise, add_special ? Prefix::kAdd : Prefix::kNone);
  }
  if (fields.any("messages") == nullptr) return invalid_argument("expected prompt or messages");
  fields.accept({"add_special_tokens"});  // the template writes them
  size_t text_bytes = 0;
  const Conversation prompt = read_chat_prompt(fields, text_bytes);
  if (fields.error()) return fields.error()->error;
  if (!model.chat_prompt) return invalid_argument("messages: the model has no chat template");
  return model.chat_prompt(prompt);
}

std::optional<ApiError> tokenize(Service& service,
                                 const std::shared_ptr<Exchange>& exchange,
                                 const Json& body,
                                 RequestRecord record) {
  const ServedModel& model = *service.model();
  Fields fields(body);
  if (auto error = read_model_name(fields, service)) return error;
  Result<std::vector<int32_t>> ids = encode_request(fields, model);
  if (!ids) return ApiError{ids.error(), fields.error() ? fields.error()->param : ""};
  const bool with_texts = fields.boolean("return_token_strs").value_or(false);
  if (fields.error()) return fields.error();
  UnknownFields unknown = check_unknown(fields, service.options().strict_requests);
  if (unknown.error) return unknown.error;
  std::string out = "{\"count\":";
  append_number(out, static_cast<int64_t>(ids->size()));
  out += ",\"max_model_len\":";
  append_number(out, model.max_model_len);
  out += ",\"tokens\":";
  append_ids(out, *ids);
  out += ",\"token_strs\":";
  if (with_texts) {
    out += '[';
    for (size_t i = 0; i < ids->size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, token_text(*model.tokenizer, (*ids)[i]));
    }
    out += ']';
  } else {
    out += "null";
  }
  out += '}';
  record.times.usage.prompt_tokens = static_cast<int32_t>(ids->size());
  finish(service, *exchange, std::move(record), std::move(unknown), std::move(out));
  return std::nullopt;
}

std::optional<ApiError> detokenize(Service& service,
                                   const std::shared_ptr<Exchange>& exchange,
                                   const Json& body,
                                   RequestRecord record) {
  const ServedModel& model = *service.model();
  Fields fields(body);
  if (auto error = read_model_name(fields, service)) return error;
  const Json* tokens = fields.any("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    return ApiError{invalid_argument("tokens: expected a list of token ids"), "tokens"};
  }
  std::vector<int32_t> ids;
  for (const Json& id : *tokens) {
    if (!id.is_number_integer() || id < 0 || id >= model.vocab_size) {
      return ApiError{invalid_argument("tokens: expected token ids of 0 to " +
                                       std::to_string(model.vocab_size - 1)),
                      "tokens"};
    }
    ids.push_back(id.get<int32_t>());
  }
  UnknownFields unknown = check_unknown(fields, service.options().strict_requests);
  if (unknown.error) return unknown.error;
  std::string out = "{\"prompt\":";
  append_json_string(out, model.tokenizer->decode(ids, /*skip_special=*/false));
  out += '}';
  finish(service, *exchange, std::move(record), std::move(unknown), std::move(out));
  return std::nullopt;
}

}  // namespace

void handle_tokenize(Service& service, const std::shared_ptr<Exchange>& exchange) {
  run_api_call(service, exchange, "tokenize", &tokenize);
}

void handle_detokenize(Service& service, const std::shared_ptr<Exchange>& exchange) {
  run_api_call(service, exchange, "detokenize", &detokenize);
}

}  // namespace baton
