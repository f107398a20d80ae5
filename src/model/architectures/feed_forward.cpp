#include "model/architectures/feed_forward.h"

#include <algorithm>
#include <string>
#include <vector>

namespace baton {
namespace {

SwiGlu read_swiglu(const ModelConfig& config, Dim width, WeightReader weights) {
  const Dim hidden{config.hidden_size, "hidden_size"};
  return {.gate_proj = weights.matrix("gate_proj", width, hidden),
          .up_proj = weights.matrix("up_proj", width, hidden),
          .down_proj = weights.matrix("down_proj", hidden, width)};
}

Experts read_experts(const ModelConfig& config, WeightReader& weights) {
  const Dim experts{config.num_experts, "number of experts"};
  const Dim width{config.moe_intermediate_size, "moe_intermediate_size"};
  std::vector<WeightView> matrices;
  for (int64_t e = 0; e < config.num_experts; ++e) {
    const SwiGlu expert =
        read_swiglu(config, width, weights.at("experts." + std::to_string(e) + "."));
    matrices.insert(matrices.end(), {expert.gate_proj, expert.up_proj, expert.down_proj});
  }
  return {.gate = weights.matrix("gate", experts, {config.hidden_size, "hidden_size"}),
          .e_score_correction_bias =
              weights.vector_if(!config.softmax_routing, "gate.e_score_correction_bias", experts),
          .matrices = weights.view_table(matrices)};
}

void run_swiglu(ForwardContext& context,
                const SwiGlu& mlp,
                const ConstTensor& x,
                const Tensor& out) {
  const Scratch::Frame frame(context.scratch);
  const Tensor gate = context.scratch.take({x.dim(0), mlp.gate_proj.rows});
  const Tensor up = context.scratch.take({x.dim(0), mlp.gate_proj.rows});
  const KernelTable& kernels = context.kernels;
  Queue& queue = context.queue;
  kernels.matmul(queue, {.x = x, .weight = mlp.gate_proj, .bias = {}, .out = gate});
  kernels.matmul(queue, {.x = x, .weight = mlp.up_proj, .bias = {}, .out = up});
  kernels.silu_mul(queue, {.gate = gate, .up = up, .out = gate});
  kernels.matmul(queue, {.x = gate, .weight = mlp.down_proj, .bias = {}, .out = out});
}

// out = sum over the chosen experts of weight * expert(x)
void run_experts(ForwardContext& context,
                 const ModelConfig& config,
                 const Experts& layer,
                 const ConstTensor& x,
                 const Tensor& out) {
  const Scratch::Frame frame(context.scratch);
  const int64_t tokens = x.dim(0);
  const int64_t top_k = config.experts_per_token;
  const int64_t width = std::max(config.hidden_size, config.moe_intermediate_size);
  const Tensor logits = context.scratch.take({tokens, config.num_experts});
  const Tensor experts = context.scratch.take(DType::kI32, {tokens, top_k});
  const Tensor weights = context.scratch.take({tokens, top_k});
  const Tensor workspace = context.scratch.take({3 * tokens * top_k, width});
  const KernelTable& kernels = context.kernels;
  Queue& queue = context.queue;
  kernels.matmul(queue, {.x = x, .weight = layer.gate, .bias = {}, .out = logits});
  kernels.route(
      queue,
      {.logits = logits,
       .bias = layer.e_score_correction_bias,
       .scoring = config.softmax_routing ? RouterScoring::kSoftmax : RouterScoring::kSigmoid,
       .group_score = config.group_max_score ? GroupScore::kMax : GroupScore::kTopTwoSum,
       .groups = static_cast<int32_t>(config.expert_groups),
       .top_groups = static_cast<int32_t>(config.top_groups),
       .normalize = config.norm_topk_prob,
       .scaling_factor = config.routed_scaling_factor,
       .experts = experts,
       .weights = weights});
  kernels.moe(queue,
              {.x = x,
               .experts = experts,
               .weights = weights,
               .matrices = layer.matrices,
               .expert_count = config.num_experts,
               .intermediate = config.moe_intermediate_size,
               .workspace = workspace,
               .out = out});
}

// out = feed_forward(x); x and out [tokens, hidden], not aliased.
void run_feed_forward(ForwardContext& context,
                      const ModelConfig& config,
                      const FeedForward& layer,
                      const ConstTensor& x,
                      const Tensor& out) {
  if (!layer.dense.empty()) return run_swiglu(context, layer.dense, x, out);
  run_experts(context, config, layer.routed, x, out);
  if (layer.shared.empty()) return;
  const Scratch::Frame frame(context.scratch);
  const Tensor shared = context.scratch.take({x.dim(0), config.hidden_size});
  run_swiglu(context, layer.shared, x, shared);
  context.kernels.add(context.queue, {.x = shared, .out = out});
}

}  // namespace

FeedForward read_feed_forward(const ModelConfig& config, bool has_experts, WeightReader weights) {
  FeedForward layer{.norm = weights.vector("post_attention_layernorm.weight",
                                           {config.hidden_size, "hidden_size"}),
                    .dense = {},
                    .routed = {},
                    .shared = {}};
  WeightReader mlp = weights.at("mlp.");
  if (!has_experts) {
    layer.dense = read_swiglu(config, {config.intermediate_size, "intermediate_size"}, mlp);
    return layer;
  }
  layer.routed = read_experts(config, mlp);
  if (config.shared_experts > 0) {
    layer.shared = read_swiglu(config,
                               {config.shared_experts * config.moe_intermediate_size,
                                "n_shared_experts * moe_intermediate_size"},
                               mlp.at("shared_experts."));
  }
  return layer;
}

void add_feed_forward(ForwardContext& context,
                      const ModelConfig& config,
                      const FeedForward& layer,
                      const Tensor& hidden) {
  const Scratch::Frame frame(context.scratch);
  const int64_t tokens = hidden.dim(0);
  const Tensor normed = context.scratch.take({tokens, config.hidden_size});
  const Tensor out = context.scratch.take({tokens, config.hidden_size});
  context.kernels.rms_norm(
      context.queue,
      {.x = hidden, .weight = layer.norm, .epsilon = config.rms_norm_eps, .out = normed});
  run_feed_forward(context, config, layer, normed, out);
  context.kernels.add(context.queue, {.x = out, .out = hidden});
}

}  // namespace baton
