#include "text/chat_messages.h"

#include <string>

namespace baton {
namespace {

Status prepare_arguments(Json& call, const std::string& where) {
  if (!call.is_object()) return invalid_argument(where + ": expected an object");
  Json& function = call.contains("function") ? call["function"] : call;
  if (!function.is_object()) return invalid_argument(where + ".function: expected an object");
  const auto arguments = function.find("arguments");
  if (arguments == function.end()) return {};
  const std::string name = where + ".function.arguments";
  if (arguments->is_null()) *arguments = Json::object();
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
  return {};
}

Status prepare_message(Json& message, const std::string& where) {
  if (!message.is_object()) return invalid_argument(where + ": expected an object");
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) {
    return invalid_argument(where + ".role: expected a string");
  }
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
    const Status status =
        prepare_arguments((*calls)[i], where + ".tool_calls[" + std::to_string(i) + "]");
    if (!status) return status;
  }
  return {};
}

}  // namespace

Result<Json> prepare_messages(Json messages) {
  if (!messages.is_array()) return invalid_argument("messages: expected a list");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Status status = prepare_message(messages[i], "messages[" + std::to_string(i) + "]");
    if (!status) return status.error();
  }
  return messages;
}

}  // namespace baton
