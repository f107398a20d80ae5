#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/reference/ops.h"
#include "kernels/reference/softmax.h"
#include "kernels/score_order.h"

namespace baton::reference {
namespace {

// The `count` best of values, as ascending indices; ties go to the lowest index.
std::vector<int32_t> best(const std::vector<float>& values, int64_t count) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int32_t i) { return score_key(values[static_cast<size_t>(i)]); };
  std::stable_sort(
      order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) > key(b); });
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<float> expert_scores(const float* logits, int64_t experts, RouterScoring scoring) {
  std::vector<double> scores(logits, logits + experts);
  if (scoring == RouterScoring::kSoftmax) {
    softmax(scores.data(), experts);
  } else {
    for (double& score : scores) score = 1.0 / (1.0 + std::exp(-score));
  }
  std::vector<float> rounded(scores.size());
  std::transform(scores.begin(), scores.end(), rounded.begin(), [](double score) {
    return static_cast<float>(score);
  });
  return rounded;
}

float group_score(std::vector<float> choice, GroupScore form) {
  std::sort(
      choice.begin(), choice.end(), [](float a, float b) { return score_key(a) > score_key(b); });
  const bool add_second = form == GroupScore::kTopTwoSum && choice.size() > 1;
  return add_second ? choice[0] + choice[1] : choice[0];
}

// Experts outside the best groups can no longer be chosen.
void mask_groups(const RouteArgs& args, std::vector<float>& choice) {
  const auto size = static_cast<int64_t>(choice.size()) / args.groups;
  std::vector<float> scores;
  for (int64_t g = 0; g < args.groups; ++g) {
    const auto first = choice.begin() + g * size;
    scores.push_back(group_score({first, first + size}, args.group_score));
  }
  const std::vector<int32_t> kept = best(scores, args.top_groups);
  for (int32_t g = 0; g < args.groups; ++g) {
    if (std::binary_search(kept.begin(), kept.end(), g)) continue;
    std::fill(choice.begin() + g * size, choice.begin() + (g + 1) * size, -INFINITY);
  }
}

void route_token(const RouteArgs& args, int64_t t) {
  const int64_t experts = args.logits.dim(1);
  const int64_t top_k = args.experts.dim(1);
  const std::vector<float> scores =
      expert_scores(args.logits.as<float>() + t * args.logits.stride(0), experts, args.scoring);
  std::vector<float> choice = scores;
  if (!args.bias.empty()) {
    for (int64_t e = 0; e < experts; ++e)
      choice[static_cast<size_t>(e)] += args.bias.as<float>()[e];
  }
  if (args.groups > 1) mask_groups(args, choice);

  const std::vector<int32_t> chosen = best(choice, top_k);
  double total = 1e-20;
  for (const int32_t e : chosen) total += static_cast<double>(scores[static_cast<size_t>(e)]);
  int32_t* out = args.experts.as<int32_t>() + t * args.experts.stride(0);
  float* weights = args.weights.as<float>() + t * args.weights.stride(0);
  for (int64_t j = 0; j < top_k; ++j) {
    out[j] = chosen[static_cast<size_t>(j)];
    const auto score = static_cast<double>(scores[static_cast<size_t>(out[j])]);
    weights[j] = static_cast<float>(args.normalize ? score / total : score) * args.scaling_factor;
  }
}

}  // namespace

void route(Queue&, const RouteArgs& args) {
  const int64_t experts = args.logits.dim(1);
  BATON_CHECK(args.experts.dim(1) <= experts, args.experts.dim(1), experts);
  BATON_CHECK(args.groups >= 1 && experts % args.groups == 0, args.groups, experts);
  BATON_CHECK(args.groups == 1 || (args.top_groups >= 1 && args.top_groups <= args.groups),
              args.top_groups,
              args.groups);
  for (int64_t t = 0; t < args.logits.dim(0); ++t) route_token(args, t);
}

}  // namespace baton::reference
