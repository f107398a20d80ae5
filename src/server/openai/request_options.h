// The fields that chat and text completions share: sampling, stopping, streaming. Request
// fields override the model's defaults.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/request.h"
#include "server/generation.h"
#include "server/openai/fields.h"
#include "server/service.h"

namespace baton {

struct RequestOptions {
  SamplingParams sampling;  // max_tokens not yet filled in
  std::optional<int64_t> max_tokens;
  int choices = 1;
  ChoiceTextOptions text;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // usage so far in every chunk
  bool return_token_ids = false;
  bool tokens_as_ids = false;          // "token_id:5" in place of a token's text
  std::optional<int64_t> keep_prompt;  // only the last tokens of the prompt; -1: what fits
  std::string cache_salt;
  int32_t priority = 0;
};

// Refuses, too, what Baton cannot do where the answer would look as if it had.
RequestOptions read_request_options(Fields& fields, const ServedModel& model);

// Drops the beginning of a prompt that is longer than the request wants it.
void shorten_prompt(std::vector<int32_t>& ids,
                    const RequestOptions& options,
                    std::optional<int64_t> max_tokens,
                    const ServedModel& model);

// The prompt (`size`: "600 tokens") does not fit. Agents that shorten their history look for the
// code, for the first words, or for the code among the words.
ApiError context_exceeded(const std::string& size,
                          const std::string& param,
                          const ServedModel& model);

// Sets max_tokens to what was asked for, at most to the room behind the prompt, where at least one
// token must fit. min_tokens beyond the max_tokens asked for is an error; where the room cut
// max_tokens, it is cut too. `param` is the field that holds the prompt.
std::optional<ApiError> fit_tokens(const std::string& param,
                                   size_t prompt_tokens,
                                   std::optional<int64_t> asked,
                                   const ServedModel& model,
                                   SamplingParams& sampling);

// One choice per prompt and n, each with a seed of its own when there is one.
void add_choices(GenerationPlan& plan,
                 const std::vector<int32_t>& prompt,
                 const SamplingParams& sampling,
                 int n);

// The largest text that may still fit the context: beyond it there is no need to tokenise.
size_t max_prompt_bytes(const ServedModel& model);

// The header and the list for fields nobody read; an error in strict mode.
struct UnknownFields {
  HttpHeaders headers;
  std::vector<std::string> warnings;
  std::optional<ApiError> error;
};
UnknownFields check_unknown(const Fields& fields, bool strict);

// ,"warnings":[...] or nothing.
void append_warnings(std::string& out, const std::vector<std::string>& warnings);

}  // namespace baton
