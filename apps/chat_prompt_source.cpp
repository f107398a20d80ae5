#include "chat_prompt_source.h"

#include <algorithm>
#include <utility>

#include "text/chat_prompt.h"

namespace baton {
namespace {

std::string_view without_blanks(std::string_view text) {
  static constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// The model goes on with the last message: what the template wrote behind its text is cut off.
Status cut_after_final_message(const Conversation& conversation, ChatPrompt& prompt) {
  const std::string content = conversation.messages.back().value("content", "");
  const std::string_view text = without_blanks(content);
  // Not looked for in what the template wrote behind all text of the request.
  const size_t end = prompt.untrusted.empty() ? 0 : prompt.untrusted.back().end;
  const size_t at = text.empty() || text.size() > end ? std::string::npos
                                                      : prompt.text.rfind(text, end - text.size());
  if (at == std::string::npos) {
    return invalid_argument("continue_final_message: the final message has no text to go on with");
  }
  prompt.text.resize(at + text.size());
  std::erase_if(prompt.untrusted,
                [&](const TextRange& range) { return range.begin >= prompt.text.size(); });
  for (TextRange& range : prompt.untrusted) range.end = std::min(range.end, prompt.text.size());
  return {};
}

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const std::string& model_folder,
                                                               const std::string& template_file) {
  Result<ChatTemplate> loaded =
      ChatTemplate::load(model_folder, {.path = template_file, .text = {}});
  if (loaded) return std::make_shared<const ChatTemplate>(std::move(*loaded));
  if (loaded.error().code != ErrorCode::kNotFound || !template_file.empty()) return loaded.error();
  return std::shared_ptr<const ChatTemplate>();
}

std::function<Result<std::vector<int32_t>>(const Conversation&)> make_chat_prompt_source(
    std::shared_ptr<const ChatTemplate> chat_template, const Tokenizer& tokenizer) {
  if (chat_template == nullptr) return nullptr;
  return [chat_template = std::move(chat_template),
          &tokenizer](const Conversation& conversation) -> Result<std::vector<int32_t>> {
    ChatTemplateInputs inputs;
    inputs.messages = conversation.messages;
    inputs.tools = conversation.tools;
    inputs.add_generation_prompt = conversation.add_generation_prompt;
    inputs.kwargs = conversation.template_arguments;
    Result<ChatPrompt> prompt = chat_template->render(inputs);
    if (!prompt) return prompt.error();
    if (conversation.continue_final_message) {
      if (Status cut = cut_after_final_message(conversation, *prompt); !cut) return cut.error();
    }
    return encode_chat_prompt(tokenizer, *prompt);
  };
}

}  // namespace baton
