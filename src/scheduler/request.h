// What a client asks for, in token ids, and what it gets back. The types that cross between
// HTTP threads and the engine thread; plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace baton {

struct SamplingParams {
  float temperature = 1.0F;  // < 1e-5 means greedy
  float top_p = 1.0F;
  float min_p = 0.0F;
  int32_t top_k = 0;  // <= 0: off
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  float repetition_penalty = 1.0F;
  std::map<int32_t, float> logit_bias;
  std::optional<uint64_t> seed;  // absent: drawn by the engine
  int32_t max_tokens = 16;
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;  // besides the model's eos ids
  int32_t logprobs = -1;                // -1: none; n: the chosen token and the n best
  int32_t prompt_logprobs = -1;         // same, for every prompt token but the first
};

enum class FinishReason { kStop, kLength, kAbort, kError };

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0F;
};

struct OutputToken {
  int32_t token = 0;
  float logprob = 0.0F;                // when asked for
  std::vector<TokenLogprob> top = {};  // the n best, best first
};

struct RequestUsage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;     // of the prompt, found in the prefix cache on first admission
  int32_t output_tokens = 0;     // with the one that ended it
  double queue_seconds = 0.0;    // submit to first scheduled
  double prefill_seconds = 0.0;  // first scheduled to first token
  double decode_seconds = 0.0;   // first token to last
};

struct Finish {
  FinishReason reason = FinishReason::kStop;
  // The eos or stop id that ended it: the last of this delivery's tokens, and no text.
  std::optional<int32_t> stop_token;
  std::optional<Error> error;  // with kError
  RequestUsage usage;
};

// One delivery: some tokens, and with the last one how it ended. Exactly one delivery per
// request carries `finish`.
struct StreamUpdate {
  std::vector<OutputToken> tokens;
  std::vector<OutputToken> prompt_logprobs;  // once, with the first delivery, when asked for
  std::optional<Finish> finish;
};

using RequestId = uint64_t;

struct Request {
  RequestId id = 0;  // unique per engine, chosen by the submitter
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  std::string cache_salt;  // prefixes are shared only within one salt
  int32_t priority = 0;    // lower is served first; equal: in order of arrival

  // Called on the engine thread; must not block and must not call back into the engine except
  // through Engine::cancel().
  std::function<void(StreamUpdate&&)> deliver;
};

}  // namespace baton
