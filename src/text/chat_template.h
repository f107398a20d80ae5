// The model's chat template: conversations and tools to the text that the model was trained on.
// Immutable after load; any thread.
//
// A template that cannot be parsed is an error at load: no other model's format is ever used in
// its place.
#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/chat_prompt.h"
#include "text/jinja/template.h"

namespace baton {

struct ChatTemplateInputs {
  Json messages = Json::array();  // as the chat API has them
  Json tools;                     // a list, or null
  Json documents;                 // a list, or null
  bool add_generation_prompt = true;
  Json kwargs;  // an object, or null: chat_template_kwargs, visible to the template by name
  // Encodes markers in request text as control tokens. For trusted callers that ask for it.
  bool trust_request_text = false;
  std::optional<std::time_t> now;  // for strftime_now; the time of the call if not given
};

class ChatTemplate {
 public:
  struct Source {
    std::string path;  // a template file instead of the model's own
    std::string text;  // ... or the template itself
  };

  // Looks in this order: `source`, `model_dir`/chat_template.jinja, chat_template of
  // tokenizer_config.json (one template, or a list of {name, template}). Special tokens come from
  // tokenizer_config.json. kNotFound if the model has no template.
  static Result<ChatTemplate> load(const std::string& model_dir, const Source& source = {});

  // kInvalidArgument with what the template says (raise_exception), or with the message that is
  // malformed.
  Result<ChatPrompt> render(const ChatTemplateInputs& inputs) const;

 private:
  ChatTemplate() = default;

  Status add_template(const std::string& name, std::string_view source, const std::string& where);
  Status read_named_templates(const Json& list, const std::string& where);
  const jinja::Template& choose(const ChatTemplateInputs& inputs) const;

  std::map<std::string, jinja::Template, std::less<>> templates_;  // by name; "default" at least
  std::map<std::string, std::string> special_tokens_;              // bos_token, eos_token, ...
};

}  // namespace baton
