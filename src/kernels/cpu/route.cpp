// The choice of experts. Scores are formed as the reference forms them, in double: a choice must
// not turn on rounding. A few hundred experts at most, so the best are found by plain passes.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.h"
#include "kernels/reference/softmax.h"
#include "kernels/score_order.h"

namespace baton::cpu {
namespace {

// Keys of what competes: score_key() + 1, so that 0 is left for what has been taken.
using Key = uint64_t;
Key key_of(float value) {
  return Key{score_key(value)} + 1;
}

// One token's values.
struct TokenScores {
  double* exact;  // [experts]
  float* scores;  // [experts]
  float* choice;  // [experts] scores with bias, -inf in groups that lost
  Key* keys;      // [experts]

  static int64_t floats(int64_t experts) { return 6 * padded(experts); }
  TokenScores(float* scratch, int64_t experts)
      : exact(reinterpret_cast<double*>(scratch)),
        scores(scratch + 2 * padded(experts)),
        choice(scratch + 3 * padded(experts)),
        keys(reinterpret_cast<Key*>(scratch + 4 * padded(experts))) {}
};

void form_scores(const RouteArgs& args, int64_t t, const TokenScores& at) {
  const int64_t experts = args.logits.dim(1);
  const float* logits = args.logits.as<float>() + t * args.logits.stride(0);
  std::copy_n(logits, experts, at.exact);
  if (args.scoring == RouterScoring::kSoftmax) {
    reference::softmax(at.exact, experts);
  } else {
    for (int64_t e = 0; e < experts; ++e) at.exact[e] = 1.0 / (1.0 + std::exp(-at.exact[e]));
  }
  const float* bias = args.bias.as<float>();
  for (int64_t e = 0; e < experts; ++e) {
    at.scores[e] = static_cast<float>(at.exact[e]);
    at.choice[e] = args.bias.empty() ? at.scores[e] : at.scores[e] + bias[e];
  }
}

// Index of the largest of keys[n], the lowest on ties; it can win no more.
int64_t take_best(Key* keys, int64_t n) {
  const int64_t best = std::max_element(keys, keys + n) - keys;
  keys[best] = 0;
  return best;
}

float group_score(const float* choice, int64_t size, GroupScore form, Key* keys) {
  for (int64_t i = 0; i < size; ++i) keys[i] = key_of(choice[i]);
  const float first = choice[take_best(keys, size)];
  if (form != GroupScore::kTopTwoSum || size == 1) return first;
  return first + choice[take_best(keys, size)];
}

// Experts outside the best groups can no longer be chosen.
void mask_groups(const RouteArgs& args, const TokenScores& at) {
  const int64_t size = args.logits.dim(1) / args.groups;
  Key* group_keys = reinterpret_cast<Key*>(at.exact);  // no longer needed
  for (int64_t g = 0; g < args.groups; ++g) {
    group_keys[g] = key_of(group_score(at.choice + g * size, size, args.group_score, at.keys));
  }
  for (int64_t kept = 0; kept < args.top_groups; ++kept) take_best(group_keys, args.groups);
  for (int64_t g = 0; g < args.groups; ++g) {
    if (group_keys[g] != 0) std::fill_n(at.choice + g * size, size, -INFINITY);
  }
}

void route_token(const RouteArgs& args, int64_t t, const TokenScores& at) {
  const int64_t experts = args.logits.dim(1);
  const int64_t top_k = args.experts.dim(1);
  form_scores(args, t, at);
  if (args.groups > 1) mask_groups(args, at);

  int32_t* out = args.experts.as<int32_t>() + t * args.experts.stride(0);
  float* weights = args.weights.as<float>() + t * args.weights.stride(0);
  for (int64_t e = 0; e < experts; ++e) at.keys[e] = key_of(at.choice[e]);
  for (int64_t j = 0; j < top_k; ++j) out[j] = static_cast<int32_t>(take_best(at.keys, experts));
  std::sort(out, out + top_k);
  double total = 1e-20;
  for (int64_t j = 0; j < top_k; ++j) total += static_cast<double>(at.scores[out[j]]);
  for (int64_t j = 0; j < top_k; ++j) {
    const auto score = static_cast<double>(at.scores[out[j]]);
    weights[j] = static_cast<float>(args.normalize ? score / total : score) * args.scaling_factor;
  }
}

}  // namespace

void route(const Microkernels&, Queue& queue, const RouteArgs& args) {
  const int64_t experts = args.logits.dim(1);
  BATON_CHECK(args.experts.dim(1) <= experts, args.experts.dim(1), experts);
  BATON_CHECK(args.groups >= 1 && experts % args.groups == 0, args.groups, experts);
  BATON_CHECK(args.groups == 1 || (args.top_groups >= 1 && args.top_groups <= args.groups),
              args.top_groups,
              args.groups);
  const OpCall call(queue);
  const WorkerScratch scratch(call, TokenScores::floats(experts));
  const int64_t tokens = args.logits.dim(0);
  const double cost = static_cast<double>(experts * (10 + args.experts.dim(1)));
  call.threads().parallel_for(
      tokens, grain_for(tokens, cost), [&](int64_t begin, int64_t end, int worker) {
        const TokenScores at(scratch.of(worker), experts);
        for (int64_t t = begin; t < end; ++t) route_token(args, t, at);
      });
}

}  // namespace baton::cpu
