#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/deepseek_v32_prompt.h"
#include "text/jinja/functions.h"
#include "text/jinja/value.h"

namespace baton {
namespace {

using jinja::Dict;
using jinja::MarkedText;
using jinja::Value;

constexpr const char* kDefault = "default";

// Templates may build a marker out of a role ('<|' + role + '|>'), so the known ones are as good
// as the template's own text.
bool is_known_role(const std::string& role) {
  constexpr std::array<std::string_view, 10> kRoles = {"system",
                                                       "user",
                                                       "assistant",
                                                       "tool",
                                                       "developer",
                                                       "model",
                                                       "function",
                                                       "ipython",
                                                       "observation",
                                                       "environment"};
  return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

Value message_value(const Json& message, bool untrusted) {
  Dict dict;
  for (const auto& [key, value] : message.items()) {
    const bool is_role = key == "role" && is_known_role(value.get<std::string>());
    dict.items.emplace_back(Value(MarkedText(key, untrusted)),
                            Value::from_json(value, untrusted && !is_role));
  }
  return Value(std::move(dict));
}

Value messages_value(const Json& messages, bool untrusted) {
  jinja::List list;
  for (const Json& message : messages) list.items.push_back(message_value(message, untrusted));
  return Value(std::move(list));
}

Error in_template(Error error, const std::string& where) {
  error.message = where + ": " + error.message;
  return error;
}

constexpr std::array<std::string_view, 13> kReservedNames = {"messages",
                                                             "tools",
                                                             "add_generation_prompt",
                                                             "continue_final_message",
                                                             "chat_template",
                                                             "tokenize",
                                                             "bos_token",
                                                             "eos_token",
                                                             "unk_token",
                                                             "sep_token",
                                                             "pad_token",
                                                             "cls_token",
                                                             "mask_token"};

// Every "*_token" of tokenizer_config.json that is a string or {"content": ...}.
std::map<std::string, std::string> special_tokens_of(const Json& config) {
  std::map<std::string, std::string> tokens;
  for (const auto& [key, value] : config.items()) {
    if (!std::string_view(key).ends_with("_token")) continue;
    const Json content = value.is_object() ? value.value("content", Json()) : value;
    if (content.is_string()) tokens[key] = content.get<std::string>();
  }
  return tokens;
}

// A turn with a call, as a template is asked whether it can show one.
Json conversation_with_call(const std::string& name, const std::string& value) {
  const Json call = {{"id", "call00001"},
                     {"type", "function"},
                     {"function", {{"name", name}, {"arguments", {{"key", value}}}}}};
  return {{{"role", "user"}, {"content", "question"}},
          {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}},
          {{"role", "tool"}, {"tool_call_id", "call00001"}, {"name", name}, {"content", "result"}}};
}

}  // namespace

bool is_reserved_template_name(std::string_view name) {
  return std::find(kReservedNames.begin(), kReservedNames.end(), name) != kReservedNames.end() ||
         jinja::find_function(name).has_value();
}

const ChatTemplate::CodedFormat* ChatTemplate::coded_format_of(const std::string& model_dir) {
  static constexpr CodedFormat kCodedFormats[] = {
      {"deepseek_v32", "deepseek_v32", &deepseek_v32_prompt},
  };
  const Result<Json> config = read_json_file(model_dir + "/config.json");
  if (!config || !config->is_object()) return nullptr;  // the model's loader says what is wrong
  const Json model_type = config->value("model_type", Json());
  for (const CodedFormat& format : kCodedFormats) {
    if (model_type == format.model_type) return &format;
  }
  return nullptr;
}

std::string_view ChatTemplate::tool_call_format() const {
  return coded_ != nullptr ? coded_->tool_call_format : std::string_view();
}

Status ChatTemplate::add_template(const std::string& name,
                                  std::string_view source,
                                  const std::string& where) {
  Result<jinja::Template> parsed = jinja::Template::parse(source);
  if (!parsed) return in_template(parsed.error(), where + ": chat template");
  templates_.insert_or_assign(name, std::move(*parsed));
  source_ += source;
  return {};
}

Status ChatTemplate::read_named_templates(const Json& list, const std::string& where) {
  for (const Json& entry : list) {
    const bool complete = entry.is_object() && entry.contains("name") &&
                          entry["name"].is_string() && entry.contains("template") &&
                          entry["template"].is_string();
    if (!complete) {
      return invalid_argument(where + ": chat_template: expected objects of name and template");
    }
    const auto name = entry["name"].get<std::string>();
    std::string place = where;
    place.append(" '").append(name).append("'");
    Status status = add_template(name, entry["template"].get_ref<const std::string&>(), place);
    if (!status) return status;
  }
  if (templates_.empty() || templates_.contains(kDefault)) return {};
  return invalid_argument(where + ": chat_template: expected one named 'default'");
}

Result<ChatTemplate> ChatTemplate::load(const std::string& model_dir, const Source& source) {
  ChatTemplate result;
  const std::string config_path = model_dir + "/tokenizer_config.json";
  Json config = Json::object();
  Result<Json> read = read_json_file(config_path);
  if (read && read->is_object()) config = std::move(*read);
  if (!read && read.error().code != ErrorCode::kNotFound) return read.error();
  result.special_tokens_ = special_tokens_of(config);

  const std::string own_path = model_dir + "/chat_template.jinja";
  const std::string& path = source.path.empty() ? own_path : source.path;
  Status status;
  if (!source.text.empty()) {
    status = result.add_template(kDefault, source.text, "given text");
  } else if (const Result<std::string> file = read_file(path); file) {
    status = result.add_template(kDefault, *file, path);
  } else if (!source.path.empty() || file.error().code != ErrorCode::kNotFound) {
    return file.error();
  } else if (const Json own = config.value("chat_template", Json()); own.is_string()) {
    status = result.add_template(kDefault, own.get_ref<const std::string&>(), config_path);
  } else if (own.is_array()) {
    status = result.read_named_templates(own, config_path);
  }
  if (!status) return status.error();
  if (result.templates_.empty()) result.coded_ = coded_format_of(model_dir);
  if (result.templates_.empty() && result.coded_ == nullptr) {
    return not_found(model_dir + ": no chat template: expected chat_template.jinja, or " +
                     "chat_template in tokenizer_config.json");
  }
  if (!result.templates_.empty()) result.find_message_form();
  return result;
}

// Published templates differ in whether they join arguments to text or walk over them, and in
// whether they look for calls where the content is none. The first form that is shown is taken:
// a template that shows no calls at all keeps the usual one. A template that never mentions the
// developer's role would drop such messages without a word.
void ChatTemplate::find_message_form() {
  const std::string name = "some_function";
  const std::string value = "some value";
  ChatTemplateInputs inputs;
  inputs.messages = conversation_with_call(name, value);
  inputs.tools = {
      {{"type", "function"}, {"function", {{"name", "f"}, {"parameters", Json::object()}}}}};
  message_form_.developer_as_system = source_.find("developer") == std::string::npos;
  for (const auto& [arguments_as_text, null_content] :
       {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    const MessageForm form{arguments_as_text, null_content, message_form_.developer_as_system};
    const Result<Json> messages = prepare_messages(inputs.messages, form);
    const Result<ChatPrompt> prompt = render_template(inputs, *messages);
    if (!prompt) continue;
    const std::string& text = prompt->text;
    if (text.find(name) != std::string::npos && text.find(value) != std::string::npos) {
      message_form_ = form;
      return;
    }
  }
}

const jinja::Template& ChatTemplate::choose(const ChatTemplateInputs& inputs) const {
  const bool has_tools = inputs.tools.is_array() && !inputs.tools.empty();
  const auto tool_use = templates_.find("tool_use");
  return has_tools && tool_use != templates_.end() ? tool_use->second
                                                   : templates_.find(kDefault)->second;
}

Result<ChatPrompt> ChatTemplate::render(const ChatTemplateInputs& inputs) const {
  if (!inputs.kwargs.is_null() && !inputs.kwargs.is_object()) {
    return invalid_argument("chat_template_kwargs: expected an object");
  }
  const Result<Json> messages = prepare_messages(inputs.messages, message_form_);
  if (!messages) return messages.error();
  if (coded_ != nullptr) return coded_->render(inputs, *messages);
  Result<ChatPrompt> prompt = render_template(inputs, *messages);
  if (!prompt) return explained(prompt.error(), inputs.messages);
  return prompt;
}

Error ChatTemplate::explained(Error error, const Json& messages) const {
  if (!message_form_.developer_as_system) return error;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] != "developer") continue;
    error.message += "; the template knows no developer, so messages[" + std::to_string(i) +
                     "] was given the role system";
    break;
  }
  return error;
}

Result<ChatPrompt> ChatTemplate::render_template(const ChatTemplateInputs& inputs,
                                                 const Json& messages) const {
  const bool untrusted = !inputs.trust_request_text;
  Dict variables;
  for (const auto& [name, token] : special_tokens_) variables.set(Value(name), Value(token));
  // As in Hugging Face, documents and tools are there, and none when the request has none.
  variables.set(Value("documents"), Value(jinja::None{}));
  for (const auto& [name, value] : inputs.kwargs.items()) {
    variables.set(Value(name), Value::from_json(value, untrusted));
  }
  // The switch of reasoning has two names; templates know one or the other.
  for (const auto& [from, to] :
       {std::pair("enable_thinking", "thinking"), std::pair("thinking", "enable_thinking")}) {
    if (inputs.kwargs.contains(from) && inputs.kwargs[from].is_boolean() &&
        !inputs.kwargs.contains(to)) {
      variables.set(Value(to), Value(inputs.kwargs[from].get<bool>()));
    }
  }
  // After the kwargs, which cannot replace the conversation.
  variables.set(Value("messages"), messages_value(messages, untrusted));
  variables.set(Value("add_generation_prompt"), Value(inputs.add_generation_prompt));
  variables.set(Value("tools"), Value::from_json(inputs.tools, untrusted));
  Result<MarkedText> text =
      choose(inputs).render(variables, inputs.now.value_or(std::time(nullptr)));
  if (!text) return in_template(text.error(), "chat template");
  std::vector<TextRange> ranges = text->untrusted();
  return ChatPrompt{std::move(*text).take_bytes(), std::move(ranges)};
}

}  // namespace baton
