// Parts of answers that chat and text completions share.
#pragma once

#include <string>
#include <vector>

#include "scheduler/request.h"
#include "server/generation.h"
#include "text/tokenizer.h"

namespace baton {

// What every chunk and every whole answer carries.
struct AnswerHead {
  std::string id;  // "chatcmpl-..."
  std::string model;
  int64_t created = 0;  // Unix seconds
  std::vector<std::string> warnings;
};

struct AnswerOptions {
  int logprobs = -1;  // alternatives per token; -1: none
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // logprobs name tokens "token_id:5"
  bool include_reasoning = true;
};

// {"id":...,"object":object,"created":...,"model":... without the closing brace.
void append_answer_head(std::string& out, const AnswerHead& head, std::string_view object);

// {"prompt_tokens":...}
void append_usage(std::string& out, const UsageSum& usage);

// {"content":[{"token","logprob","bytes","top_logprobs"}]}
void append_chat_logprobs(std::string& out,
                          const Tokenizer& tokenizer,
                          const std::vector<OutputToken>& tokens,
                          const AnswerOptions& options);

// "length" or null, and vLLM's stop_reason beside it: the stop string or id, or null.
void append_finish(std::string& out, const std::optional<ChoiceEnd>& end);

// ,"token_ids":[...]
void append_token_ids(std::string& out,
                      std::string_view name,
                      const std::vector<OutputToken>& tokens);

// The readable form of a token: its text, with U+FFFD for parts of characters.
std::string token_text(const Tokenizer& tokenizer, int32_t id);
// "token_id:5"
std::string token_id_text(int32_t id);

int64_t unix_seconds();

}  // namespace baton
