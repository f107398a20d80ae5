#include "scheduler/sequence.h"

#include <algorithm>

namespace baton {
namespace {

bool contains(const std::vector<int32_t>& ids, int32_t token) {
  return std::ranges::find(ids, token) != ids.end();
}

}  // namespace

Verdict judge(const Sequence& sequence, int32_t token, const std::vector<int32_t>& eos_token_ids) {
  const SamplingParams& sampling = sequence.request.sampling;
  if (sequence.known() >= sequence.max_tokens) {  // max_tokens 0: only the prompt was wanted
    return {.append = false, .finish = FinishReason::kLength, .stop_token = std::nullopt};
  }
  const bool is_eos = !sampling.ignore_eos && contains(eos_token_ids, token);
  const bool may_stop = sequence.output_count() >= sampling.min_tokens;
  if (may_stop && (is_eos || contains(sampling.stop_token_ids, token))) {
    return {.append = false, .finish = FinishReason::kStop, .stop_token = token};
  }
  Verdict verdict;
  if (sequence.known() + 1 >= sequence.max_tokens) verdict.finish = FinishReason::kLength;
  return verdict;
}

}  // namespace baton
