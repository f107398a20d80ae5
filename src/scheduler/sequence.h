// One request on its way through the scheduler: its tokens, how many are computed, its blocks.
// Owned by the scheduler, engine thread. Pure data and arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kv_cache/block_table.h"
#include "kv_cache/prefix_index.h"
#include "scheduler/request.h"

namespace baton {

// kWaiting: holds no blocks. kRunning: holds the blocks of all its known tokens.
enum class SequenceState : uint8_t { kWaiting, kRunning };

struct Sequence {
  Request request;              // prompt moved into `tokens`
  std::vector<int32_t> tokens;  // prompt, then what was generated
  // What may follow `tokens`, for the next step only: filled between commit() and plan(), gone
  // with the step or when the sequence is preempted.
  std::vector<int32_t> drafts;
  int32_t prompt_tokens = 0;
  int32_t max_tokens = 0;  // of prompt and output together
  int32_t computed = 0;    // tokens whose KV is in the blocks
  PrefixScope scope;
  BlockTable blocks;
  SequenceState state = SequenceState::kWaiting;

  uint64_t arrival = 0;        // order of submission; kept through preemption
  int32_t cached_tokens = -1;  // prompt tokens found on first admission; -1 before it
  int32_t passed_over = 0;     // admissions of others while this one, older, did not fit
  int32_t preemptions = 0;
  uint64_t planned_step = 0;  // last step that computes for it
  int32_t blocked_at = -1;    // available blocks when it last did not fit

  int32_t known() const { return static_cast<int32_t>(tokens.size()); }
  int32_t output_count() const { return known() - prompt_tokens; }
  int32_t uncomputed() const { return known() - computed; }
  // Of what is known, and behind it of the drafts.
  int32_t token(int32_t position) const {
    return position < known() ? tokens[static_cast<size_t>(position)]
                              : drafts[static_cast<size_t>(position - known())];
  }
  // One token to go, the last one known: each step then gives one token, and one more for every
  // draft that is right.
  bool decoding() const { return uncomputed() == 1 && output_count() > 0; }
  bool wants_prompt_logprobs() const {
    return request.sampling.prompt_logprobs >= 0 && output_count() == 0;
  }
  // Served before `other`: lower priority value, then earlier arrival.
  bool before(const Sequence& other) const {
    if (request.priority != other.request.priority) {
      return request.priority < other.request.priority;
    }
    return arrival < other.arrival;
  }
};

// What a sampled token means for its sequence.
struct Verdict {
  bool append = true;  // part of the output
  std::optional<FinishReason> finish;
  std::optional<int32_t> stop_token;
};
Verdict judge(const Sequence& sequence, int32_t token, const std::vector<int32_t>& eos_token_ids);

}  // namespace baton
