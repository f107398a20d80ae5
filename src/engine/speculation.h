// Speculation: who proposes drafts, the tokens that a step verifies besides the one it is sure of
// (scheduler.h says how). A drafter is a case of propose(); what it remembers of a sequence lies
// with the request's client. A drafter that runs on the device would fill Sequence::drafts from
// the output of a step instead. Engine thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/ngram_index.h"
#include "model/model.h"
#include "scheduler/sequence.h"

namespace baton {

struct DraftState {
  std::optional<NgramIndex> ngrams;
};

Status check_speculation(const SpeculationOptions& options);

// Most drafts of one sequence and step.
int32_t max_drafts(const SpeculationOptions& options, const Model& model);

// Called for every running sequence before each step: fills sequence.drafts if it decodes.
void propose(const SpeculationOptions& options,
             const Model& model,
             DraftState& state,
             Sequence& sequence);

}  // namespace baton
