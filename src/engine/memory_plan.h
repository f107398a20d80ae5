// How much of everything: decided once, before the first request. A plan is checked against the
// device's available memory; what does not fit is an error with bytes and the flag to change.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "device/device.h"
#include "engine/engine.h"
#include "model/model.h"

namespace baton {

// Rows of logits beyond one per sequence: how many prompt tokens of a step may have their
// logprobs computed. Bounds the memory of prompt_logprobs at any prompt length.
constexpr int32_t kPromptLogprobRows = 64;

struct StepSizes {
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 0;
  int32_t max_tokens = 0;      // of one step
  int32_t max_drafts = 0;      // of one sequence
  int32_t max_draft_rows = 0;  // of one step
  int32_t max_logit_rows = 0;  // of one step
  int64_t max_blocks = 0;      // of one sequence
  size_t scratch_bytes = 0;
  size_t input_bytes = 0;   // token ids, positions, sequences, rows, block tables
  size_t logits_bytes = 0;  // [max_logit_rows, vocab] f32

  size_t host_bytes = 0;  // staging of inputs and logits, where it is in the same memory

  // Tokens of a step in which every sequence decodes: none computes more than this many.
  int32_t max_decode_tokens() const { return max_num_seqs + max_draft_rows; }
  size_t device_bytes() const { return scratch_bytes + input_bytes + logits_bytes + host_bytes; }
};

struct EnginePlan {
  MemoryPlan memory;
  StepSizes sizes;
};

// `queue` is only passed on to the model's forward pass in planning mode.
Result<EnginePlan> plan_memory(const Model& model,
                               const Device& device,
                               Queue& queue,
                               const EngineOptions& options);

}  // namespace baton
