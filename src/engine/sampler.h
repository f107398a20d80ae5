// From one row of logits to one token, on the host. Pure functions of the row, the request and
// the output index: whatever else is in the batch, however the prompt was chunked, cached or
// recomputed, the same request and seed give the same tokens. Greedy requests without anything
// else do not come here: the device's argmax gives their tokens.
//
// Order, as vLLM's: logprobs are of the raw logits; then logit_bias, min_tokens, penalties;
// then greedy, or temperature, min_p, top_k, top_p.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "scheduler/request.h"
#include "scheduler/sequence.h"

namespace baton {

// What the penalties need to know, kept up to date from the sequence's tokens.
struct SamplerState {
  uint64_t seed = 0;
  std::unordered_set<int32_t> prompt_tokens;
  std::unordered_map<int32_t, int32_t> output_counts;
  int32_t counted = 0;  // tokens of the sequence that are in the two above
};

// Below this a temperature means greedy: dividing by it would only make infinities.
constexpr float kGreedyTemperature = 1e-5F;

bool is_greedy(const SamplingParams& sampling);

// False when the device's argmax is all this request needs for its next token.
bool needs_logits(const Sequence& sequence);

// A uniform number in [0, 1) that depends on nothing but its arguments.
double uniform(uint64_t seed, int64_t output_index);

// `logits` is [vocab], used as workspace. kInternal: the row holds a NaN or no finite maximum.
Result<OutputToken> sample(std::span<float> logits,
                           const Sequence& sequence,
                           SamplerState& state,
                           const std::vector<int32_t>& eos_token_ids);

// One row of a step. Each row is of another sequence.
struct SampleJob {
  std::span<float> logits;
  const Sequence* sequence = nullptr;
  SamplerState* state = nullptr;
  Result<OutputToken> token = OutputToken{};  // what sample() says
};
// sample() of every job, shared by `threads` (null: the caller's alone); the same tokens either
// way.
void sample_all(std::span<SampleJob> jobs,
                const std::vector<int32_t>& eos_token_ids,
                ThreadPool* threads);

// The log-probability of `token` and the `top` best under raw logits. Same errors.
Result<OutputToken> logprob_of(std::span<const float> logits, int32_t token, int32_t top);

// What a request ends with whose logits are not numbers.
Error bad_logits(int32_t output_index);

}  // namespace baton
