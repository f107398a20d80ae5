#include "server/openai/chat_messages.h"

#include <algorithm>
#include <array>

#include "text/chat_template.h"

namespace baton {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {
    "system", "developer", "user", "assistant", "tool"};

std::string at(std::string_view list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

// A string, or a list of text parts, which are joined.
bool flatten_content(const Json& content, const std::string& name, Fields& fields, Json& out) {
  if (content.is_string()) {
    out = content;
    return true;
  }
  if (!content.is_array()) {
    fields.fail(
        name, "expected a string or a list of text parts, got " + std::string(json_kind(content)));
    return false;
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const Json type = part.is_object() ? part.value("type", Json("text")) : Json();
    const auto found = part.is_object() ? part.find("text") : part.end();
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
    } else if ((type == "text" || type == "input_text" || type == "output_text") &&
               found != part.end() && found->is_string()) {
      text += found->get_ref<const std::string&>();
    } else {
      fields.fail(at(name, i),
                  type.is_string() ? "only text parts are supported, got '" +
                                         type.get<std::string>().substr(0, 40) + "'"
                                   : "expected a text part");
      return false;
    }
  }
  out = text;
  return true;
}

// The template side turns the arguments into objects; here only what every call needs.
bool read_calls(const std::string& name, Fields& fields, Json& message) {
  if (const auto legacy = message.find("function_call");
      legacy != message.end() && !legacy->is_null()) {
    fields.fail(name + ".function_call", "is not supported; use tool_calls");
    return false;
  }
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return true;
  if (calls->is_null() || (calls->is_array() && calls->empty())) {
    message.erase("tool_calls");
    return true;
  }
  if (!calls->is_array()) {
    fields.fail(name + ".tool_calls", "expected a list");
    return false;
  }
  for (size_t i = 0; i < calls->size(); ++i) {
    const std::string call_name = at(name + ".tool_calls", i);
    Json& call = (*calls)[i];
    if (!call.is_object()) {
      fields.fail(call_name, "expected an object");
      return false;
    }
    Json& function = call.contains("function") ? call["function"] : call;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) {
      fields.fail(call_name + ".function.name", "expected a string");
      return false;
    }
  }
  return true;
}

bool read_message(const Json& given, const std::string& name, Fields& fields, Json& out) {
  if (!given.is_object()) {
    fields.fail(name, "expected an object, got " + std::string(json_kind(given)));
    return false;
  }
  const auto role = given.find("role");
  if (role == given.end() || !role->is_string()) {
    fields.fail(name + ".role", "expected a string");
    return false;
  }
  const auto& role_name = role->get_ref<const std::string&>();
  if (std::find(kRoles.begin(), kRoles.end(), role_name) == kRoles.end()) {
    fields.fail(name + ".role", "expected system, developer, user, assistant or tool");
    return false;
  }
  out = given;
  if (!read_calls(name, fields, out)) return false;
  const auto content = given.find("content");
  if (content == given.end() || content->is_null()) {
    if (role_name != "assistant") {  // which may have said nothing, or only called
      fields.fail(name + ".content", "expected a string or a list of text parts");
      return false;
    }
    out["content"] = "";
  } else if (!flatten_content(*content, name + ".content", fields, out["content"])) {
    return false;
  }
  return true;
}

// {"type":"function","function":{...}}; the flat form of the Responses API is wrapped.
Json read_tools(Fields& fields) {
  const Json* tools = fields.any("tools");
  if (tools == nullptr) return nullptr;
  if (!tools->is_array()) {
    fields.fail("tools", "expected a list");
    return nullptr;
  }
  if (tools->empty()) return nullptr;
  Json out = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const Json type = tool.is_object() ? tool.value("type", Json()) : Json();
    if (!type.is_null() && type != "function") {
      fields.fail(at("tools", i) + ".type", "only function is supported");
      return nullptr;
    }
    const bool nested = tool.is_object() && tool.contains("function");
    const Json& function = nested ? tool["function"] : tool;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) {
      fields.fail(at("tools", i) + ".function.name", "expected a string");
      return nullptr;
    }
    if (nested) {
      out.push_back(tool);
      continue;
    }
    Json wrapped = function;
    wrapped.erase("type");
    out.push_back({{"type", "function"}, {"function", std::move(wrapped)}});
  }
  return out;
}

// The common ways to switch reasoning on and off end in one template argument; of several, the
// first of chat_template_kwargs, enable_thinking, thinking, reasoning_effort counts.
void read_thinking(Fields& fields, Json& arguments) {
  const auto set = [&arguments](bool on) {
    if (!arguments.contains("enable_thinking")) arguments["enable_thinking"] = on;
  };
  if (const auto on = fields.boolean("enable_thinking")) set(*on);
  if (const Json* thinking = fields.any("thinking")) {
    if (!thinking->is_object()) return fields.fail("thinking", "expected an object");
    Fields nested(*thinking, "thinking");
    const auto type = nested.string("type");
    if (type != "enabled" && type != "disabled") {
      nested.fail("type", "expected enabled or disabled");
    }
    set(type == "enabled");
    fields.adopt(nested);
  }
  if (const auto effort = fields.string("reasoning_effort")) {
    set(*effort != "none");
    if (!arguments.contains("reasoning_effort")) arguments["reasoning_effort"] = *effort;
  }
}

Json read_template_arguments(Fields& fields) {
  const Json* arguments = fields.any("chat_template_kwargs");
  if (arguments == nullptr) return Json::object();
  if (!arguments->is_object()) {
    fields.fail("chat_template_kwargs", "expected an object");
    return Json::object();
  }
  for (const auto& [name, value] : arguments->items()) {
    if (is_reserved_template_name(name)) {
      fields.fail("chat_template_kwargs." + name, "the name is reserved");
    }
  }
  return *arguments;
}

}  // namespace

Conversation read_chat_prompt(Fields& fields, size_t& text_bytes) {
  Conversation prompt;
  prompt.messages = Json::array();
  const Json* messages = fields.any("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.fail("messages", "expected a list of at least one message");
    return prompt;
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    Json message;
    if (!read_message((*messages)[i], at("messages", i), fields, message)) return prompt;
    text_bytes += message["content"].get_ref<const std::string&>().size();
    prompt.messages.push_back(std::move(message));
  }
  prompt.tools = read_tools(fields);
  prompt.template_arguments = read_template_arguments(fields);
  read_thinking(fields, prompt.template_arguments);
  prompt.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  const auto generation_prompt = fields.boolean("add_generation_prompt");
  prompt.add_generation_prompt = generation_prompt.value_or(!prompt.continue_final_message);
  if (prompt.continue_final_message && prompt.add_generation_prompt) {
    fields.fail("continue_final_message", "cannot be combined with add_generation_prompt");
  }
  return prompt;
}

}  // namespace baton
