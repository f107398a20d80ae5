// Pre-norm decoder with grouped-query attention, per-head norms of queries and keys, and a dense
// or expert feed-forward: Qwen3 and Qwen3-MoE. What a checkpoint lacks is an empty tensor.
// Formulas: models.md C.
#include <cmath>
#include <string>
#include <vector>

#include "model/architectures.h"
#include "model/architectures/attention.h"
#include "model/architectures/feed_forward.h"
#include "model/architectures/trunk.h"

namespace baton {
namespace {

struct Layer {
  ConstTensor input_layernorm;  // [hidden]
  Projection q_proj;            // [heads * head_dim, hidden]
  Projection k_proj, v_proj;    // [kv_heads * head_dim, hidden]
  ConstTensor q_norm, k_norm;   // [head_dim]
  Projection o_proj;            // [hidden, heads * head_dim]
  FeedForward mlp;
};

class GqaDecoder final : public Model {
 public:
  GqaDecoder(const ModelConfig& config, const CacheFormats& formats, WeightReader& weights);

  const ModelConfig& config() const override { return config_; }
  const BlockLayout& block_layout() const override { return layout_; }
  void forward(ForwardContext& context) const override;

 private:
  Layer read_layer(WeightReader weights, size_t i) const;
  // hidden += o_proj(attention(rope(norm(q)), rope(norm(k)), v))
  void attention(ForwardContext& context, size_t i, const Tensor& hidden) const;
  // x [tokens, heads * head_dim]: each head normed, then rotated.
  void norm_and_rotate(ForwardContext& context, const Tensor& x, const ConstTensor& norm) const;

  ModelConfig config_;
  BlockLayout layout_;
  float softmax_scale_ = 1.0F;
  Rotary rotary_;
  Trunk trunk_;
  std::vector<Layer> layers_;
};

GqaDecoder::GqaDecoder(const ModelConfig& config,
                       const CacheFormats& formats,
                       WeightReader& weights)
    : config_(config), layout_(model_block_layout(config, formats)) {
  rotary_ = read_rotary(config, config.head_dim, weights);
  softmax_scale_ = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  trunk_ = read_trunk(config, weights);
  for (size_t i = 0; i < static_cast<size_t>(config.num_layers); ++i) {
    layers_.push_back(read_layer(weights.at("model.layers." + std::to_string(i) + "."), i));
  }
}

Layer GqaDecoder::read_layer(WeightReader weights, size_t i) const {
  const ModelConfig& c = config_;
  const Dim hidden{c.hidden_size, "hidden_size"};
  const Dim head{c.head_dim, "head_dim"};
  const Dim q{c.num_heads * c.head_dim, "num_attention_heads * head_dim"};
  const Dim kv{c.num_kv_heads * c.head_dim, "num_key_value_heads * head_dim"};
  WeightReader attn = weights.at("self_attn.");
  return {.input_layernorm = weights.vector("input_layernorm.weight", hidden),
          .q_proj = read_projection(c, "q_proj", q, hidden, attn),
          .k_proj = read_projection(c, "k_proj", kv, hidden, attn),
          .v_proj = read_projection(c, "v_proj", kv, hidden, attn),
          .q_norm = attn.vector("q_norm.weight", head),
          .k_norm = attn.vector("k_norm.weight", head),
          .o_proj = read_projection(c, "o_proj", hidden, q, attn),
          .mlp = read_feed_forward(c, c.moe_layers[i], weights)};
}

void GqaDecoder::forward(ForwardContext& context) const {
  const Scratch::Frame frame(context.scratch);
  const Tensor hidden = embed_tokens(context, config_, trunk_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    attention(context, i, hidden);
    add_feed_forward(context, config_, layers_[i].mlp, hidden);
    observe(context, "hidden", i, hidden);
  }
  write_logits(context, config_, trunk_, hidden);
}

void GqaDecoder::norm_and_rotate(ForwardContext& context,
                                 const Tensor& x,
                                 const ConstTensor& norm) const {
  const int64_t heads = x.dim(1) / config_.head_dim;
  const Tensor rows = make_tensor(x.data, DType::kF32, {x.dim(0) * heads, config_.head_dim});
  context.kernels.rms_norm(
      context.queue, {.x = rows, .weight = norm, .epsilon = config_.rms_norm_eps, .out = rows});
  rotate(context, rotary_, split_inner(x, heads, config_.head_dim), /*interleaved=*/false);
}

void GqaDecoder::attention(ForwardContext& context, size_t i, const Tensor& hidden) const {
  const Layer& layer = layers_[i];
  const ModelConfig& c = config_;
  const KernelTable& kernels = context.kernels;
  Queue& queue = context.queue;
  const int64_t tokens = context.batch.tokens();

  const Scratch::Frame frame(context.scratch);
  const Tensor normed = context.scratch.take({tokens, c.hidden_size});
  const Tensor q = context.scratch.take({tokens, c.num_heads * c.head_dim});
  const Tensor k = context.scratch.take({tokens, c.num_kv_heads * c.head_dim});
  const Tensor v = context.scratch.take({tokens, c.num_kv_heads * c.head_dim});
  const Tensor mixed = context.scratch.take({tokens, c.num_heads * c.head_dim});
  const PlainCache cache{.blocks = context.kv_blocks,
                         .block_stride = layout_.stride_bytes,
                         .offset = layout_.layers[i].rows,
                         .row = layout_.plain};

  kernels.rms_norm(queue, {hidden, layer.input_layernorm, c.rms_norm_eps, normed});
  project(context, normed, layer.q_proj, q);
  project(context, normed, layer.k_proj, k);
  project(context, normed, layer.v_proj, v);
  norm_and_rotate(context, q, layer.q_norm);
  norm_and_rotate(context, k, layer.k_norm);
  kernels.store_plain(queue, {.keys = k, .values = v, .batch = context.batch, .cache = cache});
  kernels.gqa_attention(queue,
                        {.q = split_inner(q, c.num_heads, c.head_dim),
                         .batch = context.batch,
                         .cache = cache,
                         .scale = softmax_scale_,
                         .out = split_inner(mixed, c.num_heads, c.head_dim)});
  project(context, mixed, layer.o_proj, normed);
  kernels.add(queue, {.x = normed, .out = hidden});
}

}  // namespace

std::unique_ptr<Model> build_gqa_decoder(const ModelConfig& config,
                                         const CacheFormats& formats,
                                         WeightReader& weights) {
  return std::make_unique<GqaDecoder>(config, formats, weights);
}

}  // namespace baton
