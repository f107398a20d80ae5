// From the token ids of one sequence to what its client sees: content, reasoning and tool calls
// without stop strings, the tokens that belong to it, and how it ended. Token by token, so that
// the result is the same however deliveries are cut. One per choice, used on the strand of its
// connection.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/request.h"
#include "text/detokenizer.h"
#include "text/output_parser.h"
#include "text/stop_strings.h"

namespace baton {

// How a choice ended, in the words of the API.
struct ChoiceEnd {
  std::string finish_reason;                            // "stop", "length", "tool_calls"
  std::optional<std::string> stop_text = std::nullopt;  // the stop string found
  std::optional<int32_t> stop_token = std::nullopt;     // or the stop id the request named
  bool says_nothing = false;  // neither content nor a call, at most reasoning
  bool unknown_tool = false;  // a call of a function that was not offered
};

// What became visible.
struct Piece {
  std::string text;  // content
  std::string reasoning;
  std::vector<ToolCallDelta> tool_calls;  // at most one entry per index
  std::vector<OutputToken> tokens;        // the ones consumed, for logprobs and ids
  std::optional<ChoiceEnd> end;

  bool empty() const {
    return text.empty() && reasoning.empty() && tool_calls.empty() && tokens.empty() && !end;
  }
};

struct ChoiceTextOptions {
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;  // the request's, without the model's own
  bool include_stop = false;  // the stop string, or the token of a stop id, is part of the text
  bool one_call = false;      // the first finished tool call ends the answer
  bool skip_special_tokens = true;
  std::optional<OutputParserOptions> parser;  // absent: all is content
};

class ChoiceText {
 public:
  ChoiceText(const Tokenizer& tokenizer, const ChoiceTextOptions& options);

  // Adds one token to `piece`. True when it completed a stop string, or the one call there may be:
  // `piece` then has its end, and later tokens are not to be pushed.
  bool push(OutputToken token, Piece& piece);
  // The eos or stop id that ended the sequence: counted and listed, but no text.
  void push_stop_token(OutputToken token, Piece& piece);
  // The sequence ended by itself.
  void finish(const Finish& finish, Piece& piece);

  int32_t tokens() const { return tokens_; }
  int32_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  // What went into the stop matcher and has not come out: a tag, or plain text.
  struct Held {
    std::optional<OutputTag> tag;
    size_t bytes;
  };

  void add_text(std::string_view text, Piece& piece);
  void add_tag(OutputTag tag, Piece& piece);
  void show(std::string_view shown, Piece& piece);
  void end_with_stop_string(Piece& piece);
  void take(OutputDelta&& delta, Piece& piece);
  void close_parser(Piece& piece);
  bool in_reasoning() const { return parser_ && parser_->in_reasoning(); }
  bool names(int32_t stop_token) const;
  void end(ChoiceEnd how, Piece& piece) const;

  Detokenizer detokenizer_;
  StopStringMatcher stops_;
  const std::vector<std::string> stop_strings_;
  std::unique_ptr<OutputParser> parser_;  // null: all is content
  const OutputTags tags_;                 // none without a parser
  const std::vector<int32_t> stop_token_ids_;
  const bool include_stop_;
  const bool one_call_;
  std::deque<Held> held_;
  int32_t tokens_ = 0;
  int32_t reasoning_tokens_ = 0;
  bool said_something_ = false;
};

}  // namespace baton
