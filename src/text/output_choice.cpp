#include "text/output_choice.h"

#include <algorithm>

#include "text/tool_calls/blanks.h"

namespace baton {
namespace {

// "<think>" and a newline in the longest spelling, a byte a token.
constexpr size_t kTailTokens = 16;

}  // namespace

bool vocabulary_has(const Tokenizer& tokenizer, const ToolCallFormat& format) {
  const auto& wanted = format.syntax().vocabulary;
  return std::all_of(wanted.begin(), wanted.end(), [&tokenizer](std::string_view token) {
    const auto id = tokenizer.token_id(token);
    return id && tokenizer.is_added(*id);
  });
}

const ToolCallFormat* choose_tool_call_format(const Tokenizer& tokenizer,
                                              std::string_view prompt_source) {
  const ToolCallFormat* fits = nullptr;
  for (const ToolCallFormat& format : tool_call_formats()) {
    if (!vocabulary_has(tokenizer, format)) continue;
    if (prompt_source.find(format.sign) != std::string_view::npos) return &format;
    if (fits == nullptr) fits = &format;
  }
  return fits;
}

OutputTags output_tags_of(const Tokenizer& tokenizer, const ToolCallFormat* format) {
  OutputTags tags;
  if (format != nullptr) {
    const auto& texts = format->syntax().tags;
    tags.texts.insert(tags.texts.end(), texts.begin(), texts.end());
  }
  for (const AddedToken& token : tokenizer.added_tokens()) {
    const auto whole = std::find(tags.texts.begin(), tags.texts.end(), token.content);
    const bool is_part =
        std::any_of(tags.texts.begin(), tags.texts.end(), [&token](std::string_view text) {
          return token.special && text.find(token.content) != std::string_view::npos;
        });
    if (whole != tags.texts.end()) {
      tags.tokens[token.id] = static_cast<OutputTag>(whole - tags.texts.begin());
    } else if (is_part) {
      tags.parts[token.id] = token.content;
    }
  }
  return tags;
}

bool ends_in_reasoning(const Tokenizer& tokenizer,
                       const OutputTags& tags,
                       std::span<const int32_t> prompt) {
  if (!tags.is_token(kThinkOpen)) {
    const auto tail = prompt.last(std::min(prompt.size(), kTailTokens));
    return without_blanks(tokenizer.decode(tail, false)).ends_with(tags.texts[kThinkOpen]);
  }
  for (auto id = prompt.rbegin(); id != prompt.rend(); ++id) {
    const auto tag = tags.tokens.find(*id);
    if (tag == tags.tokens.end()) continue;
    if (tag->second == kThinkOpen) return true;
    if (tag->second == kThinkClose) return false;
  }
  return false;
}

}  // namespace baton
