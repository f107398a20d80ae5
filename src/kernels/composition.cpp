#include "kernels/composition.h"

#include <algorithm>
#include <vector>

namespace baton {
namespace {

struct Choice {
  int32_t row;  // token
  float weight;
};

// Per expert the tokens that chose it, in order of token.
std::vector<std::vector<Choice>> choices_by_expert(const MoeArgs& args) {
  std::vector<std::vector<Choice>> lists(static_cast<size_t>(args.expert_count));
  for (int64_t t = 0; t < args.experts.dim(0); ++t) {
    const int32_t* experts = args.experts.as<int32_t>() + t * args.experts.stride(0);
    const float* weights = args.weights.as<float>() + t * args.weights.stride(0);
    for (int64_t j = 0; j < args.experts.dim(1); ++j) {
      BATON_CHECK(experts[j] >= 0 && experts[j] < args.expert_count, experts[j]);
      lists[static_cast<size_t>(experts[j])].push_back({static_cast<int32_t>(t), weights[j]});
    }
  }
  return lists;
}

// Part `index` of the three that the workspace is made of: [count, width].
Tensor workspace_part(const MoeArgs& args, int64_t index, int64_t count, int64_t width) {
  const int64_t part = args.workspace.elements() / 3;
  BATON_CHECK(count * width <= part, count, width, part);
  return make_tensor(args.workspace.as<float>() + index * part, DType::kF32, {count, width});
}

void run_expert(const KernelTable& table,
                Queue& queue,
                const MoeArgs& args,
                const WeightView* matrices,
                const std::vector<Choice>& choices) {
  const auto count = static_cast<int64_t>(choices.size());
  const int64_t hidden = args.x.dim(1);
  const Tensor x = workspace_part(args, 0, count, hidden);
  const Tensor gate = workspace_part(args, 1, count, args.intermediate);
  const Tensor up = workspace_part(args, 2, count, args.intermediate);
  for (int64_t i = 0; i < count; ++i) {
    const float* row = args.x.as<float>() + choices[static_cast<size_t>(i)].row * args.x.stride(0);
    std::copy(row, row + hidden, x.as<float>() + i * hidden);
  }
  table.matmul(queue, {.x = x, .weight = matrices[0], .bias = {}, .out = gate});
  table.matmul(queue, {.x = x, .weight = matrices[1], .bias = {}, .out = up});
  table.silu_mul(queue, {.gate = gate, .up = up, .out = gate});
  table.matmul(queue, {.x = gate, .weight = matrices[2], .bias = {}, .out = x});
  for (int64_t i = 0; i < count; ++i) {
    const Choice& choice = choices[static_cast<size_t>(i)];
    const float* down = x.as<float>() + i * hidden;
    float* out = args.out.as<float>() + choice.row * args.out.stride(0);
    for (int64_t j = 0; j < hidden; ++j) out[j] += choice.weight * down[j];
  }
}

}  // namespace

void compose_index_select(const KernelTable& table, Queue& queue, const IndexSelectArgs& args) {
  const int64_t tokens = args.selection.dim(0);
  const int64_t group = args.scores.dim(0);
  BATON_CHECK(group > 0 || tokens == 0, group);
  for (int64_t first = 0; first < tokens; first += group) {
    const int64_t count = std::min(group, tokens - first);
    const Tensor scores = rows(args.scores, 0, count);
    table.index_scores(queue,
                       {.q = args.q,
                        .head_weights = args.head_weights,
                        .batch = args.batch,
                        .cache = args.cache,
                        .scale = args.scale,
                        .first_token = first,
                        .scores = scores});
    table.select_top_k(queue,
                       {.scores = scores,
                        .batch = args.batch,
                        .first_token = first,
                        .selection = rows(args.selection, first, count)});
  }
}

void compose_moe(const KernelTable& table, Queue& queue, const MoeArgs& args) {
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    float* out = args.out.as<float>() + t * args.out.stride(0);
    std::fill(out, out + args.out.dim(1), 0.0F);
  }
  const std::vector<std::vector<Choice>> lists = choices_by_expert(args);
  for (int64_t e = 0; e < args.expert_count; ++e) {
    const std::vector<Choice>& choices = lists[static_cast<size_t>(e)];
    if (!choices.empty()) run_expert(table, queue, args, args.matrices + 3 * e, choices);
  }
}

}  // namespace baton
