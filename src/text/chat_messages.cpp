#include "text/chat_messages.h"

#include <string>

#include "text/jinja/python_format.h"

namespace baton {
namespace {

std::string python_json(const Json& value) {
  std::string error;  // JSON has nothing that JSON lacks
  return jinja::json_of(jinja::Value::from_json(value, false), {}, error)->bytes();
}

Status prepare_arguments(Json& call, const std::string& where, bool as_text) {
  if (!call.is_object()) return invalid_argument(where + ": expected an object");
  Json& function = call.contains("function") ? call["function"] : call;
  if (!function.is_object()) return invalid_argument(where + ".function: expected an object");
  const auto arguments = function.find("arguments");
  if (arguments == function.end()) return {};
  const std::string name = where + ".function.arguments";
  if (arguments->is_null()) *arguments = Json::object();
  const Json given = *arguments;
  if (arguments->is_string()) {
    const std::string text = arguments->get<std::string>();
    const bool is_blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
    Result<Json> parsed = is_blank ? Json::object() : parse_json(text, name);
    if (!parsed) return parsed.error();
    *arguments = std::move(*parsed);
  }
  if (!arguments->is_object()) {
    return invalid_argument(name + ": expected a JSON object, got " +
                            std::string(arguments->type_name()));
  }
  if (as_text) {
    const bool has_text = given.is_string() && !arguments->empty();
    *arguments = has_text ? given : Json(python_json(*arguments));
  }
  return {};
}

Status prepare_message(Json& message, const std::string& where, MessageForm form) {
  if (!message.is_object()) return invalid_argument(where + ": expected an object");
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) {
    return invalid_argument(where + ".role: expected a string");
  }
  if (form.developer_as_system && *role == "developer") *role = "system";
  for (const auto& [from, to] :
       {std::pair("reasoning", "reasoning_content"), std::pair("reasoning_content", "reasoning")}) {
    const bool has = message.contains(from) && message[from].is_string();
    if (has && (!message.contains(to) || message[to].is_null())) {
      Json reasoning = message[from];
      message[to] = std::move(reasoning);
    }
  }
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return {};
  if (!calls->is_array()) return invalid_argument(where + ".tool_calls: expected a list");
  for (size_t i = 0; i < calls->size(); ++i) {
    Status status = prepare_arguments(
        (*calls)[i], where + ".tool_calls[" + std::to_string(i) + "]", form.arguments_as_text);
    if (!status) return status;
  }
  if (form.null_content && !calls->empty() && message.value("content", Json("")) == "") {
    message["content"] = nullptr;
  }
  return {};
}

}  // namespace

Result<Json> prepare_messages(Json messages, MessageForm form) {
  if (!messages.is_array()) return invalid_argument("messages: expected a list");
  for (size_t i = 0; i < messages.size(); ++i) {
    Status status = prepare_message(messages[i], "messages[" + std::to_string(i) + "]", form);
    if (!status) return status.error();
  }
  return messages;
}

}  // namespace baton
