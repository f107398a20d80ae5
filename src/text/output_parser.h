// Splits what a model writes into reasoning, content and tool calls, as it is written. One per
// choice of a response, used by the thread that writes its stream.
//
// However the output is cut into pieces, the joined deltas are the same; a non-streamed answer
// is the joined deltas of one push. Tags never appear in any field, except inside an argument
// value, whose only end is </arg_value> (models.md F.1).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/output_tags.h"

namespace baton {

struct ToolCallDelta {
  int index = 0;
  std::string name;       // in the first delta of an index, never again
  std::string arguments;  // appended; the joined text is one JSON object once the call closed
};

struct OutputDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> tool_calls;  // at most one entry per index

  bool empty() const { return reasoning.empty() && content.empty() && tool_calls.empty(); }
};

struct OutputParserOptions {
  bool reasoning = true;             // split <think> ... </think>
  bool begins_in_reasoning = false;  // the prompt ended with <think>
  bool tool_calls = true;            // parse <tool_call>; otherwise it stays in the content
  bool tags_are_tokens = true;       // tags come through tag(); text() is never searched for them
  // name -> JSON schema of its arguments. A call of a name that is not here is passed on with
  // unknown_tool() true: the client decides.
  std::vector<std::pair<std::string, Json>> tools;
};

class OutputParser {
 public:
  explicit OutputParser(OutputParserOptions options);

  OutputDelta text(std::string_view piece);  // valid UTF-8, whole characters
  OutputDelta tag(OutputTag tag);
  // The output ended, or was cut off: nothing is closed that the model did not close.
  OutputDelta finish();

  int closed_calls() const { return closed_calls_; }
  bool unknown_tool() const { return unknown_tool_; }
  bool in_reasoning() const { return state_ == State::kReasoning; }

 private:
  enum class State { kContent, kReasoning, kName, kBetween, kKey, kAfterKey, kValue };

  void on_text(std::string_view piece);
  void on_tag(OutputTag tag);
  void on_call_tag(OutputTag tag);
  void literal(OutputTag tag) { on_text(tag_text(tag)); }
  void add_content(std::string_view piece);
  void open_call();
  void give_up_call();
  void announce();
  void open_value();
  void add_value(std::string_view piece);
  void close_value();
  void close_call();
  ToolCallDelta& current_call();
  const Json* schema() const;
  OutputDelta take() { return std::exchange(delta_, {}); }

  OutputParserOptions options_;
  TagScanner scanner_;
  OutputDelta delta_;
  State state_ = State::kContent;
  std::string name_, key_, value_;
  std::string pending_space_;   // whitespace between calls: dropped unless content follows
  bool announced_ = false;      // the call's name was sent
  bool streams_value_ = false;  // a string, sent as it comes
  int arguments_ = 0;           // of the current call
  int calls_ = 0;
  int closed_calls_ = 0;
  bool unknown_tool_ = false;
};

}  // namespace baton
