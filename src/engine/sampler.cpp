#include "engine/sampler.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <string>

#include "base/hash.h"
#include "engine/logit_row.h"

namespace baton {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void update(SamplerState& state, const Sequence& sequence) {
  for (; state.counted < sequence.known(); ++state.counted) {
    const int32_t token = sequence.tokens[static_cast<size_t>(state.counted)];
    if (state.counted < sequence.prompt_tokens) {
      state.prompt_tokens.insert(token);
    } else {
      ++state.output_counts[token];
    }
  }
}

void apply_penalties(std::span<float> logits, const SamplingParams& s, const SamplerState& state) {
  const auto repeat = [&](int32_t token) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0.0F ? logit / s.repetition_penalty : logit * s.repetition_penalty;
  };
  if (s.repetition_penalty != 1.0F) {
    for (const int32_t token : state.prompt_tokens) repeat(token);
    for (const auto& [token, count] : state.output_counts) {
      if (!state.prompt_tokens.contains(token)) repeat(token);
    }
  }
  for (const auto& [token, count] : state.output_counts) {
    logits[static_cast<size_t>(token)] -=
        s.frequency_penalty * static_cast<float>(count) + s.presence_penalty;
  }
}

bool has_penalties(const SamplingParams& s) {
  return s.repetition_penalty != 1.0F || s.presence_penalty != 0.0F || s.frequency_penalty != 0.0F;
}

// False when edit() would leave the logits as they are.
bool edits(const Sequence& sequence) {
  const SamplingParams& s = sequence.request.sampling;
  return !s.logit_bias.empty() || sequence.output_count() < s.min_tokens || has_penalties(s);
}

void edit(std::span<float> logits,
          const Sequence& sequence,
          SamplerState& state,
          const std::vector<int32_t>& eos_token_ids) {
  const SamplingParams& s = sequence.request.sampling;
  for (const auto& [token, bias] : s.logit_bias) logits[static_cast<size_t>(token)] += bias;
  if (sequence.output_count() < s.min_tokens) {
    for (const int32_t token : eos_token_ids) logits[static_cast<size_t>(token)] = kNever;
    for (const int32_t token : s.stop_token_ids) logits[static_cast<size_t>(token)] = kNever;
  }
  if (has_penalties(s)) {
    update(state, sequence);
    apply_penalties(logits, s, state);
  }
}

int32_t choose(const LogitRow& row, const SamplingParams& s, double random) {
  if (is_greedy(s)) return row.argmax();
  return row.draw(
      {.temperature = s.temperature, .min_p = s.min_p, .top_k = s.top_k, .top_p = s.top_p}, random);
}

OutputToken with_logprobs(const LogitRow& row, int32_t token, int32_t top) {
  const double total = row.log_sum_exp();
  const auto logprob = [&](int32_t id) {
    return static_cast<float>(static_cast<double>(row.logit(id)) - total);
  };
  OutputToken output{.token = token, .logprob = logprob(token)};
  for (const int32_t id : row.best(static_cast<size_t>(std::max(top, 0)))) {
    output.top.push_back({id, logprob(id)});
  }
  return output;
}

}  // namespace

bool is_greedy(const SamplingParams& sampling) {
  return sampling.temperature < kGreedyTemperature;
}

bool needs_logits(const Sequence& sequence) {
  const SamplingParams& s = sequence.request.sampling;
  return !is_greedy(s) || s.logprobs >= 0 || edits(sequence);
}

double uniform(uint64_t seed, int64_t output_index) {
  const uint64_t mixed = hash_mix(hash_mix(seed, static_cast<uint64_t>(output_index)), seed);
  return static_cast<double>(mixed >> 11) * 0x1.0p-53;
}

Error bad_logits(int32_t output_index) {
  return internal_error("the model's logits for output token " + std::to_string(output_index) +
                        " are not finite numbers");
}

Result<OutputToken> logprob_of(std::span<const float> logits, int32_t token, int32_t top) {
  const LogitRow row(logits);
  if (!row.finite()) return bad_logits(0);
  return with_logprobs(row, token, top);
}

Result<OutputToken> sample(std::span<float> logits,
                           const Sequence& sequence,
                           SamplerState& state,
                           const std::vector<int32_t>& eos_token_ids) {
  const SamplingParams& s = sequence.request.sampling;
  const bool edited = edits(sequence);
  LogitRow row(logits);
  if (!row.finite()) return bad_logits(sequence.output_count());
  std::vector<float> raw;
  if (edited) {
    if (s.logprobs >= 0) raw.assign(logits.begin(), logits.end());
    edit(logits, sequence, state, eos_token_ids);
    row = LogitRow(logits);
    if (!row.finite()) return bad_logits(sequence.output_count());
  }
  const int32_t token = choose(row, s, uniform(state.seed, sequence.output_count()));
  if (s.logprobs < 0) return OutputToken{.token = token};
  return with_logprobs(edited ? LogitRow(raw) : row, token, s.logprobs);
}

void sample_all(std::span<SampleJob> jobs,
                const std::vector<int32_t>& eos_token_ids,
                ThreadPool* threads) {
  const auto run = [&](int64_t begin, int64_t end, int) {
    for (SampleJob& job :
         jobs.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) {
      try {
        job.token = sample(job.logits, *job.sequence, *job.state, eos_token_ids);
      } catch (const std::exception& error) {  // out of host memory; a worker must not throw
        job.token = internal_error(std::string("sampling failed: ") + error.what());
      }
    }
  };
  const auto count = static_cast<int64_t>(jobs.size());
  if (count == 0) return;
  if (threads == nullptr) return run(0, count, 0);
  // A piece is worth waking a thread for: about 10 us, at half a nanosecond a logit.
  constexpr int64_t kLogitsPerPiece = 20'000;
  const auto vocab = static_cast<int64_t>(jobs.front().logits.size());
  threads->parallel_for(count, 1 + kLogitsPerPiece / vocab, run);
}

}  // namespace baton
