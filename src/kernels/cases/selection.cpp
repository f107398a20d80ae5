// select_top_k, route and moe: the ops that choose.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cases/cached_context.h"

namespace baton {
namespace {

float score_of(CaseMemory& memory, const std::string& kind, int64_t position) {
  if (kind == "ties") return static_cast<float>(memory.uniform(-2, 2));
  if (kind == "zeros") return memory.uniform(0, 1) == 0 ? 0.0F : -0.0F;  // equal: relu makes both
  if (kind == "ascending") return static_cast<float>(position);
  if (kind == "nan" && memory.uniform(0, 3) == 0) return std::numeric_limits<float>::quiet_NaN();
  if (kind == "minus_infinity" && memory.uniform(0, 1) == 0) return -INFINITY;
  return memory.normal();
}

struct RouteShape {
  int64_t tokens = 5, experts = 8, top_k = 2;
  RouterScoring scoring = RouterScoring::kSigmoid;
  GroupScore group_score = GroupScore::kTopTwoSum;
  int32_t groups = 1, top_groups = 1;
  bool bias = true, normalize = true, ties = false;
};

KernelCase route_case(const RouteShape& s) {
  return {
      .name = "route/t" + std::to_string(s.tokens) + "_e" + std::to_string(s.experts) + "_top" +
              std::to_string(s.top_k) +
              (s.scoring == RouterScoring::kSigmoid ? "_sigmoid" : "_softmax") +
              (s.group_score == GroupScore::kTopTwoSum ? "_two" : "_max") + "_g" +
              std::to_string(s.groups) + "of" + std::to_string(s.top_groups) +
              (s.bias ? "_bias" : "") + (s.normalize ? "_norm" : "") + (s.ties ? "_ties" : ""),
      .prepare =
          [s](CaseMemory& memory) {
            const int64_t count = s.tokens * s.experts;
            const std::vector<float> logits =
                s.ties ? memory.small_integers(count, -1, 1) : memory.normals(count);
            // Negative choice values: a masked expert must lose to them too.
            std::vector<float> bias = memory.normals(s.experts, s.ties ? 0.0F : 0.5F);
            for (float& value : bias) value -= 1.0F;
            const RouteArgs args{.logits = memory.input(logits, {s.tokens, s.experts}, {.rows = 3}),
                                 .bias = s.bias ? memory.input(bias, {s.experts}) : ConstTensor(),
                                 .scoring = s.scoring,
                                 .group_score = s.group_score,
                                 .groups = s.groups,
                                 .top_groups = s.top_groups,
                                 .normalize = s.normalize,
                                 .scaling_factor = 2.5F,
                                 .experts = memory.output(DType::kI32, {s.tokens, s.top_k}),
                                 .weights = memory.output(DType::kF32, {s.tokens, s.top_k})};
            return KernelCall{.run = [args](const KernelTable& t, Queue& q) { t.route(q, args); }};
          },
      .tolerance = 1e-6};
}

}  // namespace

KernelCase select_top_k_case(const TopKShape& s) {
  return {.name = "select_top_k/" + s.scores + sequences_name(s.sequences) + "_top" +
                  std::to_string(s.top_k) + "_first" + std::to_string(s.first_token),
          .prepare = [s](CaseMemory& memory) {
            const CachedContext context = make_context(memory, s.sequences);
            const int64_t count = static_cast<int64_t>(context.positions.size()) - s.first_token;
            const int64_t width = context.batch->max_context + 5;
            std::vector<float> scores(static_cast<size_t>(count * width), -INFINITY);
            for (int64_t r = 0; r < count; ++r) {
              const int32_t last = context.positions[static_cast<size_t>(s.first_token + r)];
              for (int64_t p = 0; p <= last; ++p) {
                scores[static_cast<size_t>(r * width + p)] = score_of(memory, s.scores, p);
              }
            }
            const SelectTopKArgs args{.scores = memory.input(scores, {count, width}),
                                      .batch = *context.batch,
                                      .first_token = s.first_token,
                                      .selection = memory.output(DType::kI32, {count, s.top_k})};
            return KernelCall{
                .run = [args](const KernelTable& t, Queue& q) { t.select_top_k(q, args); },
                .bytes = static_cast<double>(4 * count * width)};
          }};
}

KernelCases select_top_k_cases() {
  KernelCases cases;
  for (const char* scores : {"normal", "ties", "zeros", "nan", "minus_infinity", "ascending"}) {
    for (const int64_t context : {1, 7, 8, 9, 64, 200}) {
      cases.push_back(
          select_top_k_case({.scores = scores, .sequences = {{.context = context}}, .top_k = 8}));
    }
    cases.push_back(select_top_k_case({.scores = scores,
                                       .sequences = {{30, 20}, {1, 1}, {90, 3}},
                                       .top_k = 16,
                                       .first_token = 3}));
    // Long prompts: past every 16-bit count, several times over the selection's size.
    cases.push_back(
        select_top_k_case({.scores = scores, .sequences = {{.context = 140001}}, .top_k = 2048}));
  }
  return cases;
}

KernelCases route_cases() {
  KernelCases cases;
  for (const RouterScoring scoring : {RouterScoring::kSigmoid, RouterScoring::kSoftmax}) {
    for (const bool normalize : {true, false}) {
      for (const bool ties : {true, false}) {
        cases.push_back(route_case({.scoring = scoring, .normalize = normalize, .ties = ties}));
        cases.push_back(route_case({.experts = 256,
                                    .top_k = 8,
                                    .scoring = scoring,
                                    .bias = false,
                                    .normalize = normalize,
                                    .ties = ties}));
      }
    }
    for (const GroupScore group_score : {GroupScore::kTopTwoSum, GroupScore::kMax}) {
      cases.push_back(route_case({.experts = 16,
                                  .top_k = 4,
                                  .scoring = scoring,
                                  .group_score = group_score,
                                  .groups = 4,
                                  .top_groups = 2}));
      cases.push_back(route_case({.experts = 256,
                                  .top_k = 8,
                                  .scoring = scoring,
                                  .group_score = group_score,
                                  .groups = 8,
                                  .top_groups = 4,
                                  .ties = true}));
    }
    cases.push_back(route_case({.tokens = 3, .experts = 4, .top_k = 4, .scoring = scoring}));
    cases.push_back(route_case({.tokens = 70, .experts = 6, .top_k = 1, .scoring = scoring}));
  }
  return cases;
}

KernelCase moe_case(const MoeShape& s) {
  return {.name = "moe/" + std::string(weight_form_name(s.form)) + "_t" + std::to_string(s.tokens) +
                  "_h" + std::to_string(s.hidden) + "_i" + std::to_string(s.intermediate) + "_e" +
                  std::to_string(s.experts) + "_top" + std::to_string(s.top_k),
          .prepare =
              [s](CaseMemory& memory) {
                std::vector<WeightView> matrices;
                for (int64_t e = 0; e < s.experts; ++e) {
                  matrices.push_back(memory.weight(s.form, s.intermediate, s.hidden));
                  matrices.push_back(memory.weight(s.form, s.intermediate, s.hidden));
                  matrices.push_back(memory.weight(s.form, s.hidden, s.intermediate));
                }
                std::vector<int32_t> experts;
                std::vector<bool> used(static_cast<size_t>(s.experts));
                for (int64_t t = 0; t < s.tokens; ++t) {
                  std::vector<int32_t> chosen;
                  for (int32_t e = 0; e < s.experts; ++e) chosen.push_back(e);
                  std::shuffle(chosen.begin(), chosen.end(), memory.random());
                  std::sort(chosen.begin(), chosen.begin() + s.top_k);
                  experts.insert(experts.end(), chosen.begin(), chosen.begin() + s.top_k);
                  for (int64_t j = 0; j < s.top_k; ++j) {
                    used[static_cast<size_t>(chosen[static_cast<size_t>(j)])] = true;
                  }
                }
                const int64_t widest = std::max(s.hidden, s.intermediate);
                const MoeArgs args{.x = memory.normal_input({s.tokens, s.hidden}),
                                   .experts = memory.input(experts, {s.tokens, s.top_k}),
                                   .weights = memory.normal_input({s.tokens, s.top_k}),
                                   .matrices = static_cast<const WeightView*>(memory.upload(
                                       matrices.data(), matrices.size() * sizeof(WeightView))),
                                   .expert_count = s.experts,
                                   .intermediate = s.intermediate,
                                   .workspace = memory.workspace({3 * s.tokens * s.top_k, widest}),
                                   .out = memory.output(DType::kF32, {s.tokens, s.hidden})};
                const double values = 3.0 * static_cast<double>(s.hidden * s.intermediate);
                const auto read = static_cast<double>(std::count(used.begin(), used.end(), true));
                const double width = s.form == WeightForm::kF32        ? 4.0
                                     : s.form == WeightForm::kFp8Block ? 1.0
                                     : s.form == WeightForm::kNvfp4    ? 0.5625
                                                                       : 2.0;
                return KernelCall{
                    .run = [args](const KernelTable& t, Queue& q) { t.moe(q, args); },
                    .bytes = read * values * width,
                    .operations = 2.0 * values * static_cast<double>(s.tokens * s.top_k)};
              },
          .tolerance = 5e-6};
}

KernelCases moe_cases() {
  KernelCases cases;
  for (const WeightForm form : {WeightForm::kF32,
                                WeightForm::kBF16,
                                WeightForm::kF16,
                                WeightForm::kFp8Block,
                                WeightForm::kNvfp4}) {
    for (const int64_t tokens : {1, 5, 40}) {
      cases.push_back(moe_case({form, tokens, 64, 32, 8, 2}));
    }
    cases.push_back(moe_case({form, 3, 48, 144, 16, 8}));
  }
  return cases;
}

}  // namespace baton
