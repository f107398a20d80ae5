#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "base/hash.h"

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
  for (const float value : logits) sum += std::exp(static_cast<double>(value - maximum));
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
  const bool penalties =
      s.repetition_penalty != 1.0F || s.presence_penalty != 0.0F || s.frequency_penalty != 0.0F;
  if (!penalties) return;
  update(state, sequence);
  apply_penalties(logits, s, state);
}

// Turns logits into weights exp((x - max) / temperature), zero below min_p.
double to_weights(std::span<float> logits, float maximum, const SamplingParams& s) {
  double total = 0.0;
  for (float& value : logits) {
    value = std::exp((value - maximum) / s.temperature);
    if (value < s.min_p) value = 0.0F;  // the best has weight 1
    total += static_cast<double>(value);
  }
  return total;
}

// The token at which the running sum, in the order of `order`, passes target.
template <typename Order>
int32_t pick(std::span<const float> weights, const Order& order, double target) {
  double sum = 0.0;
  int32_t last = -1;
  for (const int32_t token : order) {
    const float weight = weights[static_cast<size_t>(token)];
    if (weight <= 0.0F) continue;
    sum += static_cast<double>(weight);
    last = token;
    if (sum > target) break;
  }
  return last;
}

// The best tokens that top_k and top_p keep, best first, and their total weight.
std::vector<int32_t> truncate(std::span<const float> weights,
                              const SamplingParams& s,
                              double total,
                              double& kept) {
  std::vector<int32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  const BetterLogit better{weights};
  if (s.top_k > 0 && static_cast<size_t>(s.top_k) < order.size()) {
    std::ranges::nth_element(order, order.begin() + s.top_k - 1, better);
    order.resize(static_cast<size_t>(s.top_k));
    total = 0.0;
    std::ranges::sort(order, better);  // one order of summing for one answer
    for (const int32_t token : order)
      total += static_cast<double>(weights[static_cast<size_t>(token)]);
  }
  // A heap gives the best ones in order without sorting the whole vocabulary.
  const auto worse = [&](int32_t a, int32_t b) { return better(b, a); };
  std::ranges::make_heap(order, worse);
  std::vector<int32_t> best;
  kept = 0.0;
  const double enough = static_cast<double>(s.top_p) * total;
  while (!order.empty() && (best.empty() || kept < enough)) {
    std::ranges::pop_heap(order, worse);
    const int32_t token = order.back();
    order.pop_back();
    best.push_back(token);
    kept += static_cast<double>(weights[static_cast<size_t>(token)]);
  }
  return best;
}

int32_t draw(std::span<float> logits, float maximum, const SamplingParams& s, double random) {
  const double total = to_weights(logits, maximum, s);
  if (s.top_k <= 0 && s.top_p >= 1.0F) {
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    return pick(logits, order, random * total);
  }
  double kept = 0.0;
  const std::vector<int32_t> best = truncate(logits, s, total, kept);
  return pick(logits, best, random * kept);
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
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::ranges::partial_sort(order, middle, BetterLogit{logits});
  for (auto it = order.begin(); it != middle; ++it) output.top.push_back({*it, logprob(*it)});
  return output;
}

Result<OutputToken> sample(std::span<float> logits,
                           const Sequence& sequence,
                           SamplerState& state,
                           const std::vector<int32_t>& eos_token_ids) {
  const SamplingParams& s = sequence.request.sampling;
  if (finite_maximum(logits) == kNever) return bad_logits(sequence.output_count());
  std::vector<float> raw;
  if (s.logprobs >= 0) raw.assign(logits.begin(), logits.end());
  edit(logits, sequence, state, eos_token_ids);
  const float maximum = finite_maximum(logits);
  if (maximum == kNever) return bad_logits(sequence.output_count());
  const int32_t token =
      is_greedy(s) ? argmax(logits)
                   : draw(logits, maximum, s, uniform(state.seed, sequence.output_count()));
  if (s.logprobs >= 0) return logprob_of(raw, token, s.logprobs);
  return OutputToken{.token = token};
}

}  // namespace baton
