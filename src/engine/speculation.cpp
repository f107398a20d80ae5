#include "engine/speculation.h"

#include <string>

namespace baton {
namespace {

Status check_range(const char* key, int32_t value, int32_t least, int32_t most) {
  if (value >= least && value <= most) return {};
  return invalid_argument(std::string(key) + ": expected " + std::to_string(least) + ".." +
                          std::to_string(most) + ", got " + std::to_string(value));
}

void propose_ngrams(const SpeculationOptions& options, DraftState& state, Sequence& sequence) {
  if (!state.ngrams) state.ngrams.emplace(options.prompt_lookup_min, options.prompt_lookup_max);
  state.ngrams->extend(sequence.tokens);  // while the prompt is computed, too
  if (!sequence.decoding()) return;
  state.ngrams->continuation(sequence.tokens, options.num_speculative_tokens, sequence.drafts);
}

void propose_own(const Model& model, Sequence& sequence) {
  if (!sequence.decoding()) return;
  model.draft({.tokens = sequence.tokens,
               .prompt_tokens = sequence.prompt_tokens,
               .request_id = sequence.request.id},
              sequence.drafts);
}

}  // namespace

Status check_speculation(const SpeculationOptions& options) {
  if (options.method == DraftMethod::kModel) return {};
  Status status =
      check_range("num_speculative_tokens", options.num_speculative_tokens, 1, kMaxDrafts);
  if (!status) return status;
  status = check_range("prompt_lookup_min", options.prompt_lookup_min, 1, kMaxPromptLookup);
  if (!status) return status;
  return check_range(
      "prompt_lookup_max", options.prompt_lookup_max, options.prompt_lookup_min, kMaxPromptLookup);
}

int32_t max_drafts(const SpeculationOptions& options, const Model& model) {
  return options.method == DraftMethod::kNgram ? options.num_speculative_tokens
                                               : model.max_drafts();
}

void propose(const SpeculationOptions& options,
             const Model& model,
             DraftState& state,
             Sequence& sequence) {
  switch (options.method) {
    case DraftMethod::kModel:
      return propose_own(model, sequence);
    case DraftMethod::kNgram:
      return propose_ngrams(options, state, sequence);
  }
}

}  // namespace baton
