// Which output format a model speaks, from what its prompt and its vocabulary say (NU-02), and
// what its tokens mean in it. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "text/output_tags.h"
#include "text/tokenizer.h"
#include "text/tool_calls/formats.h"

namespace baton {

// Whether the vocabulary has the tokens of the format.
bool vocabulary_has(const Tokenizer& tokenizer, const ToolCallFormat& format);

// The format that the prompt asks for, if the vocabulary has its tokens; else the first one that
// the vocabulary was made for; null without any. `prompt_source` is the text that prompts are
// made from (ChatTemplate::source), which may be empty.
const ToolCallFormat* choose_tool_call_format(const Tokenizer& tokenizer,
                                              std::string_view prompt_source);

// The tags of reasoning and of `format` (may be null).
OutputTags output_tags_of(const Tokenizer& tokenizer, const ToolCallFormat* format);

// Whether the prompt left a reasoning block open, so that the answer begins inside it.
bool ends_in_reasoning(const Tokenizer& tokenizer,
                       const OutputTags& tags,
                       std::span<const int32_t> prompt);

}  // namespace baton
