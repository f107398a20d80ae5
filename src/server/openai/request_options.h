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
  std::string cache_salt;
  int32_t priority = 0;
};

RequestOptions read_request_options(Fields& fields, const ServedModel& model);

// kInvalidArgument when the prompt leaves no room in the context; else min(asked, room).
Result<int32_t> fit_max_tokens(size_t prompt_tokens,
                               std::optional<int64_t> asked,
                               const ServedModel& model);

// After sampling.max_tokens is set. min_tokens beyond the max_tokens asked for is an error; where
// the room cut max_tokens, it is cut too.
std::optional<ApiError> fit_min_tokens(std::optional<int64_t> asked, SamplingParams& sampling);

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
