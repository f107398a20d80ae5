// Splits what a model writes into reasoning, content and tool calls, as it is written. One per
// choice of a response, used by the thread that writes its stream.
//
// However the output is cut into pieces, the joined deltas are the same; a non-streamed answer
// is the joined deltas of one push. Tags of well-formed output never appear in any field; what
// turns out to be no call is content, tags and all (tool_calls/formats.h).
#pragma once

#include <memory>
#include <string_view>

#include "text/output_delta.h"
#include "text/output_tags.h"
#include "text/tool_calls/formats.h"

namespace baton {

struct OutputParserOptions {
  bool reasoning = true;              // split <think> ... </think>
  bool begins_in_reasoning = false;   // the prompt ended with <think>
  const CallSyntax* calls = nullptr;  // how calls are written; null: they stay in the content
  // The model's tags: those of the call format behind the two of reasoning. Tags that are tokens
  // come through tag(); the others are searched for in text().
  OutputTags tags;
  // A call of a name that is not here is passed on with unknown_tool() true: the client decides.
  OfferedTools tools;
};

class OutputParser {
 public:
  explicit OutputParser(OutputParserOptions options);
  OutputParser(const OutputParser&) = delete;
  OutputParser& operator=(const OutputParser&) = delete;

  OutputDelta text(std::string_view piece);  // valid UTF-8, whole characters
  OutputDelta tag(OutputTag tag);
  // The output ended, or was cut off: nothing is closed that the model did not close.
  OutputDelta finish();

  int closed_calls() const { return writer_.closed_calls(); }
  bool unknown_tool() const { return writer_.unknown_tool(); }
  bool in_reasoning() const { return in_reasoning_; }

 private:
  void on_text(std::string_view piece);
  void on_tag(OutputTag tag);
  void literal(OutputTag tag) { on_text(options_.tags.texts[tag]); }

  const OutputParserOptions options_;
  TagScanner scanner_;
  CallWriter writer_;
  std::unique_ptr<CallReader> reader_;  // null: calls stay in the content
  bool in_reasoning_;
};

}  // namespace baton
