// The model's chat template: conversations and tools to the text that the model was trained on.
// Immutable after load; any thread.
//
// A template that cannot be parsed is an error at load: no other model's format is ever used in
// its place. Models that come without a template because their format is published as code
// (DeepSeek-V3.2) have theirs here; a template that the folder brings wins.
#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/chat_messages.h"
#include "text/chat_prompt.h"
#include "text/jinja/template.h"

namespace baton {

struct ChatTemplateInputs {
  Json messages = Json::array();  // as the chat API has them
  Json tools;                     // a list, or null
  bool add_generation_prompt = true;
  Json kwargs;  // an object, or null: chat_template_kwargs, visible to the template by name
  // Encodes markers in request text as control tokens. For trusted callers that ask for it.
  bool trust_request_text = false;
  std::optional<std::time_t> now;  // for strftime_now; the time of the call if not given
};

// Names that chat_template_kwargs of a request may not give, since they mean something else to a
// template or to its caller: the conversation, special tokens, functions of the language.
bool is_reserved_template_name(std::string_view name);

class ChatTemplate {
 public:
  struct Source {
    std::string path;  // a template file instead of the model's own
    std::string text;  // ... or the template itself
  };

  // Looks in this order: `source`, `model_dir`/chat_template.jinja, chat_template of
  // tokenizer_config.json (one template, or a list of {name, template}), the format of the
  // model_type in config.json. Special tokens come from tokenizer_config.json. kNotFound if the
  // model has none of them.
  static Result<ChatTemplate> load(const std::string& model_dir, const Source& source = {});

  // kInvalidArgument with what the template says (raise_exception), or with the message that is
  // malformed.
  Result<ChatPrompt> render(const ChatTemplateInputs& inputs) const;

  // The text of the templates; empty for a coded format.
  const std::string& source() const { return source_; }
  // The tool-call format that a coded format speaks; empty for a template, whose text tells.
  std::string_view tool_call_format() const;

 private:
  struct CodedFormat {
    std::string_view model_type;
    std::string_view tool_call_format;
    Result<ChatPrompt> (*render)(const ChatTemplateInputs& inputs, const Json& messages);
  };

  ChatTemplate() = default;

  static const CodedFormat* coded_format_of(const std::string& model_dir);
  Result<ChatPrompt> render_template(const ChatTemplateInputs& inputs, const Json& messages) const;
  void find_message_form();
  // Adds, where a message is a developer's, that the template knows no such role.
  Error explained(Error error, const Json& messages) const;

  Status add_template(const std::string& name, std::string_view source, const std::string& where);
  Status read_named_templates(const Json& list, const std::string& where);
  const jinja::Template& choose(const ChatTemplateInputs& inputs) const;

  // By name; "default" at least, unless the format is coded.
  std::map<std::string, jinja::Template, std::less<>> templates_;
  std::string source_;
  std::map<std::string, std::string> special_tokens_;  // bos_token, eos_token, ...
  const CodedFormat* coded_ = nullptr;
  MessageForm message_form_;
};

}  // namespace baton
