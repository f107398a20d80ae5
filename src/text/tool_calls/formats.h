// The formats in which models write tool calls, and the table of their names. Each is a file
// beside this one with a reader and a CallSyntax (docs/how_to/add_a_tool_call_format.md).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "text/tool_calls/call_writer.h"

namespace baton {

// Reads the part of one answer that is not reasoning. However it is cut into pieces, the writer
// gets the same. What turns out to be no call is content; a call that breaks off after its name
// was sent is never closed, and what has no place in it is content. No text is lost.
class CallReader {
 public:
  virtual ~CallReader() = default;

  virtual void text(std::string_view piece) = 0;
  virtual void tag(size_t tag) = 0;  // index into the tags of the format
  virtual void finish() = 0;         // the answer ended, or was cut off
  virtual bool in_call() const = 0;  // anywhere but in content
};

struct CallSyntax {
  std::span<const std::string_view> tags;
  // Added tokens by which a vocabulary shows that it was made for this format.
  std::span<const std::string_view> vocabulary;
  std::string_view separator;  // between content and the first call
  std::unique_ptr<CallReader> (*make_reader)(CallWriter&);
};

struct ToolCallFormat {
  std::string_view name;  // of --tool-call-parser; vLLM's
  const CallSyntax& (*syntax)();
  std::string_view sign;  // what a prompt that asks for this format says
};

// In order of preference where a prompt or a vocabulary fits several.
std::span<const ToolCallFormat> tool_call_formats();
const ToolCallFormat* find_tool_call_format(std::string_view name);  // null: no such name
std::string tool_call_format_names();                                // "a, b or c"

const CallSyntax& glm_calls();
const CallSyntax& dsml_calls();
const CallSyntax& deepseek_calls();
const CallSyntax& hermes_calls();
const CallSyntax& qwen_coder_calls();

}  // namespace baton
