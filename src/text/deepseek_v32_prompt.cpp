#include "text/deepseek_v32_prompt.h"

#include <string>
#include <string_view>

#include "text/jinja/marked_text.h"
#include "text/jinja/python_format.h"

namespace baton {
namespace {

using jinja::MarkedText;

constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>";
constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";
constexpr std::string_view kUser = "<｜User｜>";
constexpr std::string_view kAssistant = "<｜Assistant｜>";
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

// Before and behind the schemas of the tools, one a line.
constexpr std::string_view kToolsHead =
    R"(## Tools

You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "<｜DSML｜function_calls>" block like the following as part of your reply to the user:
<｜DSML｜function_calls>
<｜DSML｜invoke name="$FUNCTION_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$FUNCTION_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜function_calls>

String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types (numbers, booleans, arrays, objects).

If the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking block. Here is an example:

<｜DSML｜function_calls>
...
</｜DSML｜function_calls>

<function_results>
...
</function_results>

<think>...thinking about results</think>

Here are the functions available in JSONSchema format:
<functions>)";
constexpr std::string_view kToolsFoot = "\n</functions>\n";

bool has_role(const Json& message, std::string_view role) {
  return message["role"] == role;
}

bool asks(const Json& message) {
  return has_role(message, "user") || has_role(message, "developer");
}

// A string, or the text parts of a list.
std::string text_of(const Json& message, const char* key) {
  const auto value = message.find(key);
  if (value == message.end()) return {};
  if (value->is_string()) return value->get<std::string>();
  std::string text;
  for (const Json& part : value->is_array() ? *value : Json::array()) {
    if (part.is_object() && part.contains("text") && part["text"].is_string()) {
      text += part["text"].get<std::string>();
    }
  }
  return text;
}

class Encoder {
 public:
  Encoder(const ChatTemplateInputs& inputs, const Json& messages)
      : inputs_(inputs), messages_(messages) {
    for (const char* name : {"thinking", "enable_thinking"}) {
      thinks_ = thinks_ || (inputs.kwargs.is_object() && inputs.kwargs.value(name, Json()) == true);
    }
    for (size_t i = 0; i < messages.size(); ++i) {
      if (asks(messages[i])) last_question_ = static_cast<ptrdiff_t>(i);
    }
  }

  Result<ChatPrompt> encode() {
    out_.append(kBegin);
    const bool has_place = !messages_.empty() && (has_role(messages_[0], "system") ||
                                                  has_role(messages_[0], "developer"));
    if (!has_place) add_tools("\n\n");
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (Status added = add_message(i); !added) return added.error();
    }
    std::vector<TextRange> untrusted = out_.untrusted();
    return ChatPrompt{std::move(out_).take_bytes(), std::move(untrusted)};
  }

 private:
  void given(const std::string& text) {
    out_.append(MarkedText(text, !inputs_.trust_request_text));
  }

  void given_json(const Json& value) {
    std::string error;  // JSON has nothing that JSON lacks
    const auto text =
        jinja::json_of(jinja::Value::from_json(value, !inputs_.trust_request_text), {}, error);
    if (text) out_.append(*text);
  }

  Status add_message(size_t i) {
    const Json& message = messages_[i];
    if (has_role(message, "system")) {
      given(text_of(message, "content"));
      if (i == 0) add_tools("\n\n");
    } else if (asks(message)) {
      add_question(i);
    } else if (has_role(message, "assistant")) {
      add_answer(i);
    } else if (has_role(message, "tool")) {
      return add_result(i);
    } else {
      return invalid_argument("messages[" + std::to_string(i) +
                              "].role: expected system, developer, user, assistant or tool, got '" +
                              message["role"].get<std::string>() + "'");
    }
    return {};
  }

  void add_tools(std::string_view before) {
    if (!inputs_.tools.is_array() || inputs_.tools.empty()) return;
    out_.append(before);
    out_.append(kToolsHead);
    for (const Json& tool : inputs_.tools) {
      out_.append("\n");
      given_json(tool.is_object() && tool.contains("function") ? tool["function"] : tool);
    }
    out_.append(kToolsFoot);
  }

  void add_question(size_t i) {
    out_.append(kUser);
    if (has_role(messages_[i], "developer")) {
      if (i == 0) add_tools("\n\n");
      out_.append("\n\n# The user's message is: ");
    }
    given(text_of(messages_[i], "content"));
    if (ends_without_answer(i)) return;
    out_.append(kAssistant);
    out_.append(think_marker(i));
  }

  void add_answer(size_t i) {
    const Json& message = messages_[i];
    if (thinks_ && static_cast<ptrdiff_t>(i) > last_question_) {
      given(text_of(message, "reasoning_content"));
      out_.append(kThinkEnd);
    }
    given(text_of(message, "content"));
    const auto calls = message.find("tool_calls");
    if (calls != message.end() && calls->is_array() && !calls->empty()) add_calls(*calls);
    out_.append(kEnd);
  }

  void add_calls(const Json& calls) {
    out_.append("\n\n<｜DSML｜function_calls>\n");
    for (const Json& call : calls) {
      const Json& function = call.contains("function") ? call["function"] : call;
      out_.append("<｜DSML｜invoke name=\"");
      given(text_of(function, "name"));
      out_.append("\">\n");
      add_arguments(function.value("arguments", Json::object()));
      out_.append("\n</｜DSML｜invoke>\n");
    }
    out_.append("</｜DSML｜function_calls>");
  }

  void add_arguments(const Json& arguments) {
    bool first = true;
    for (const auto& [key, value] : arguments.items()) {
      out_.append(first ? "<｜DSML｜parameter name=\"" : "\n<｜DSML｜parameter name=\"");
      first = false;
      given(key);
      out_.append(value.is_string() ? "\" string=\"true\">" : "\" string=\"false\">");
      if (value.is_string()) {
        given(value.get<std::string>());
      } else {
        given_json(value);
      }
      out_.append("</｜DSML｜parameter>");
    }
  }

  // The results of one answer's calls stand in one block.
  Status add_result(size_t i) {
    size_t caller = i;
    while (caller > 0 && has_role(messages_[caller], "tool")) --caller;
    const Json calls = messages_[caller].value("tool_calls", Json());
    const size_t place = i - caller;  // from 1
    if (!has_role(messages_[caller], "assistant") || !calls.is_array() || calls.size() < place) {
      return invalid_argument("messages[" + std::to_string(i) +
                              "]: expected a tool call before this result");
    }
    if (place == 1) out_.append("\n\n<function_results>");
    out_.append("\n<result>");
    given(text_of(messages_[i], "content"));
    out_.append("</result>");
    const bool is_last = i + 1 == messages_.size() || !has_role(messages_[i + 1], "tool");
    if (!is_last) return {};
    out_.append("\n</function_results>");
    if (ends_without_answer(i)) return {};
    out_.append("\n\n");
    out_.append(think_marker(i));
    return {};
  }

  // What stands where message i hands over to the assistant.
  std::string_view think_marker(size_t i) const {
    return thinks_ && static_cast<ptrdiff_t>(i) >= last_question_ ? kThink : kThinkEnd;
  }

  bool ends_without_answer(size_t i) const {
    return i + 1 == messages_.size() && !inputs_.add_generation_prompt;
  }

  const ChatTemplateInputs& inputs_;
  const Json& messages_;
  bool thinks_ = false;
  ptrdiff_t last_question_ = -1;
  MarkedText out_;
};

}  // namespace

Result<ChatPrompt> deepseek_v32_prompt(const ChatTemplateInputs& inputs, const Json& messages) {
  return Encoder(inputs, messages).encode();
}

}  // namespace baton
