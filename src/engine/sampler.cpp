#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/hash.h"
#include "base/numeric.h"

namespace baton {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// -inf when a NaN is present or there is no finite maximum.
float finite_maximum(std::span<const float> logits) {
  float best = kNever;
  bool has_nan = false;
  for (const float value : logits) {
    has_nan |= std::isnan(value);
    best = std::max(best, value);
  }
  return has_nan || std::isinf(best) ? kNever : best;
}

int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Best first; equal logits in order of token id.
struct BetterLogit {
  std::span<const float> logits;
  bool operator()(int32_t a, int32_t b) const {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  }
};

double log_sum_exp(std::span<const float> logits, float maximum) {
  double sum = 0.0;
  for (const float value : logits) sum += static_cast<double>(std::exp(value - maximum));
  return static_cast<double>(maximum) + std::log(sum);
}

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

// False when there was nothing to change.
bool edit(std::span<float> logits,
          const Sequence& sequence,
          SamplerState& state,
          const std::vector<int32_t>& eos_token_ids) {
  const SamplingParams& s = sequence.request.sampling;
  const bool bans = sequence.output_count() < s.min_tokens;
  for (const auto& [token, bias] : s.logit_bias) logits[static_cast<size_t>(token)] += bias;
  if (bans) {
    for (const int32_t token : eos_token_ids) logits[static_cast<size_t>(token)] = kNever;
    for (const int32_t token : s.stop_token_ids) logits[static_cast<size_t>(token)] = kNever;
  }
  const bool penalties =
      s.repetition_penalty != 1.0F || s.presence_penalty != 0.0F || s.frequency_penalty != 0.0F;
  if (penalties) {
    update(state, sequence);
    apply_penalties(logits, s, state);
  }
  return penalties || bans || !s.logit_bias.empty();
}

// Below this (x - max) / temperature a token gets weight 0: all of a vocabulary of a million
// such tokens together weigh less than the step between two uniform numbers.
constexpr float kNegligible = -50.0F;

// Turns logits into weights exp((x - max) / temperature) in [0, 1], zero below min_p.
void to_weights(std::span<float> logits, float maximum, const SamplingParams& s) {
  for (float& value : logits) {
    const float exponent = (value - maximum) / s.temperature;
    value = exponent < kNegligible ? 0.0F : std::exp(exponent);
    if (value < s.min_p) value = 0.0F;  // the best has weight 1
  }
}

double sum_of(std::span<const float> weights) {
  double sum = 0.0;
  for (const float weight : weights) sum += static_cast<double>(weight);
  return sum;
}

// Weights in [0, 1] by size: the leading bits of a positive float are ordered as the float.
constexpr int kBucketShift = 16;
size_t bucket_of(float weight) {
  return float_bits(weight) >> kBucketShift;
}
constexpr size_t kBuckets = (0x3f800000U >> kBucketShift) + 1;  // 1.0F is in the last

// Zeroes all but the best tokens: as many as it takes to reach `max_count` or a total of
// `enough`, at least one. Linear in the vocabulary: whole buckets are kept or dropped, and only
// the one on the border is sorted. Returns the total that is kept.
double keep_best(std::span<float> weights, size_t max_count, double enough) {
  std::vector<double> sums(kBuckets);
  std::vector<uint32_t> counts(kBuckets);
  for (const float weight : weights) {
    sums[bucket_of(weight)] += static_cast<double>(weight);
    ++counts[bucket_of(weight)];
  }
  size_t border = kBuckets - 1, count = 0;
  double kept = 0.0;
  while (border > 0 && count + counts[border] < max_count && kept + sums[border] < enough) {
    count += counts[border];
    kept += sums[border--];
  }
  std::vector<int32_t> at_border;
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t bucket = bucket_of(weights[i]);
    if (bucket > border) continue;
    if (bucket == border) at_border.push_back(static_cast<int32_t>(i));
    if (bucket < border) weights[i] = 0.0F;
  }
  std::ranges::sort(at_border, BetterLogit{weights});
  for (const int32_t token : at_border) {
    float& weight = weights[static_cast<size_t>(token)];
    if (count == 0 || (count < max_count && kept < enough)) {
      kept += static_cast<double>(weight);
      ++count;
    } else {
      weight = 0.0F;
    }
  }
  return kept;
}

// The token at which the running sum, in order of token id, passes `target`.
int32_t pick(std::span<const float> weights, double target) {
  double sum = 0.0;
  int32_t last = -1;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0.0F) continue;
    sum += static_cast<double>(weights[i]);
    last = static_cast<int32_t>(i);
    if (sum > target) break;
  }
  return last;
}

int32_t draw(std::span<float> logits, float maximum, const SamplingParams& s, double random) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  to_weights(logits, maximum, s);
  const bool cuts_k = s.top_k > 0 && static_cast<size_t>(s.top_k) < logits.size();
  double total = cuts_k ? keep_best(logits, static_cast<size_t>(s.top_k), kAll) : sum_of(logits);
  if (s.top_p < 1.0F) {
    total = keep_best(logits, logits.size(), static_cast<double>(s.top_p) * total);
  }
  return pick(logits, random * total);
}

// The `count` best, best first.
std::vector<int32_t> best_of(std::span<const float> logits, size_t count) {
  const BetterLogit better{logits};
  std::vector<int32_t> best;
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    if (best.size() == count && !better(token, best.back())) continue;
    if (best.size() == count) best.pop_back();
    best.insert(std::ranges::upper_bound(best, token, better), token);
  }
  return best;
}

}  // namespace

bool is_greedy(const SamplingParams& sampling) {
  return sampling.temperature < kGreedyTemperature;
}

bool needs_logits(const Sequence& sequence) {
  const SamplingParams& s = sequence.request.sampling;
  return !is_greedy(s) || s.logprobs >= 0 || !s.logit_bias.empty() ||
         sequence.output_count() < s.min_tokens || s.repetition_penalty != 1.0F ||
         s.presence_penalty != 0.0F || s.frequency_penalty != 0.0F;
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
  const float maximum = finite_maximum(logits);
  if (maximum == kNever) return bad_logits(0);
  const double total = log_sum_exp(logits, maximum);
  const auto logprob = [&](int32_t id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - total);
  };
  OutputToken output{.token = token, .logprob = logprob(token)};
  const auto count = std::min(static_cast<size_t>(std::max(top, 0)), logits.size());
  if (count == 0) return output;
  for (const int32_t id : best_of(logits, count)) output.top.push_back({id, logprob(id)});
  return output;
}

Result<OutputToken> sample(std::span<float> logits,
                           const Sequence& sequence,
                           SamplerState& state,
                           const std::vector<int32_t>& eos_token_ids) {
  const SamplingParams& s = sequence.request.sampling;
  float maximum = finite_maximum(logits);
  if (maximum == kNever) return bad_logits(sequence.output_count());
  std::vector<float> raw;
  if (s.logprobs >= 0) raw.assign(logits.begin(), logits.end());
  if (edit(logits, sequence, state, eos_token_ids)) maximum = finite_maximum(logits);
  if (maximum == kNever) return bad_logits(sequence.output_count());
  const int32_t token =
      is_greedy(s) ? argmax(logits)
                   : draw(logits, maximum, s, uniform(state.seed, sequence.output_count()));
  if (s.logprobs >= 0) return logprob_of(raw, token, s.logprobs);
  return OutputToken{.token = token};
}

}  // namespace baton
