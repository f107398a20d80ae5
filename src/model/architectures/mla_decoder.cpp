// Pre-norm decoder with multi-head latent attention and experts: GLM-5.x, DeepSeek V2, V3 and
// V3.2, GLM-4.7-Flash, Moonlight. One data flow: what a checkpoint lacks (a query latent, an
// indexer, experts, biases) is an empty tensor. Attention runs in its absorbed form for prefill
// and decode alike, so both give the same bits.
//
// Layers with an indexer choose the tokens to attend to; layers without one use the choice of the
// layer before them. Formulas: models.md A.3 to A.7, B.1, B.2.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/architectures.h"
#include "model/architectures/attention.h"
#include "model/architectures/feed_forward.h"
#include "model/architectures/trunk.h"

namespace baton {
namespace {

constexpr float kIndexNormEpsilon = 1e-6F;  // of the indexer's LayerNorm, in every checkpoint
constexpr int64_t kScoreBudget = 16 << 20;  // index scores held at once, in values

struct Indexer {
  WeightView wq_b;                  // [index heads * dim, q_lora]
  WeightView wk;                    // [dim, hidden]
  ConstTensor k_norm, k_norm_bias;  // [dim]
  WeightView weights_proj;          // [index heads, hidden]

  bool empty() const { return wk.empty(); }
};

struct Layer {
  ConstTensor input_layernorm;    // [hidden]
  WeightView q_proj;              // [heads * qk, hidden] without q latent
  Projection q_a_proj;            // [q_lora, hidden]
  ConstTensor q_a_layernorm;      // [q_lora]
  WeightView q_b_proj;            // [heads * qk, q_lora]
  Projection kv_a_proj_with_mqa;  // [latent + rope, hidden]
  ConstTensor kv_a_layernorm;     // [latent]
  AbsorbedHalves kv_b;            // key [heads, latent, nope], value [heads, v, latent]
  Projection o_proj;              // [hidden, heads * v]
  Indexer indexer;                // empty in shared layers and in models without one
  FeedForward mlp;
};

class MlaDecoder final : public Model {
 public:
  MlaDecoder(const ModelConfig& config, const CacheFormats& formats, WeightReader& weights);

  const ModelConfig& config() const override { return config_; }
  const BlockLayout& block_layout() const override { return layout_; }
  void forward(ForwardContext& context) const override;

 private:
  Layer read_layer(WeightReader weights, size_t i) const;
  Indexer read_indexer(WeightReader weights) const;
  // hidden += attention(norm(hidden)); a layer with an indexer replaces `selection` first.
  void attention(ForwardContext& context,
                 size_t i,
                 const Tensor& hidden,
                 const Tensor& selection) const;
  // selection = the best visible tokens by index score.
  void select(ForwardContext& context,
              size_t i,
              const Tensor& normed,
              const Tensor& q_latent,
              const Tensor& selection) const;

  ModelConfig config_;
  BlockLayout layout_;
  float softmax_scale_ = 1.0F;
  Rotary rotary_;
  Trunk trunk_;
  std::vector<Layer> layers_;
};

MlaDecoder::MlaDecoder(const ModelConfig& config,
                       const CacheFormats& formats,
                       WeightReader& weights)
    : config_(config), layout_(model_block_layout(config, formats)) {
  rotary_ = read_rotary(config, config.qk_rope_head_dim, weights);
  softmax_scale_ = rotary_.score_factor / std::sqrt(static_cast<float>(config.qk_head_dim()));
  trunk_ = read_trunk(config, weights);
  for (size_t i = 0; i < static_cast<size_t>(config.num_layers); ++i) {
    layers_.push_back(read_layer(weights.at("model.layers." + std::to_string(i) + "."), i));
  }
}

Layer MlaDecoder::read_layer(WeightReader weights, size_t i) const {
  const ModelConfig& c = config_;
  const Dim hidden{c.hidden_size, "hidden_size"};
  const Dim q_latent{c.q_lora_rank, "q_lora_rank"};
  const Dim q{c.num_heads * c.qk_head_dim(),
              "num_attention_heads * (qk_nope_head_dim + qk_rope_head_dim)"};
  const Dim kv{c.kv_lora_rank + c.qk_rope_head_dim, "kv_lora_rank + qk_rope_head_dim"};
  const Dim v{c.num_heads * c.v_head_dim, "num_attention_heads * v_head_dim"};
  WeightReader attn = weights.at("self_attn.");
  Layer layer;
  layer.input_layernorm = weights.vector("input_layernorm.weight", hidden);
  if (c.q_lora_rank > 0) {
    layer.q_a_proj = read_projection(c, "q_a_proj", q_latent, hidden, attn);
    layer.q_a_layernorm = attn.vector("q_a_layernorm.weight", q_latent);
    layer.q_b_proj = attn.matrix("q_b_proj", q, q_latent);
  } else {
    layer.q_proj = attn.matrix("q_proj", q, hidden);
  }
  layer.kv_a_proj_with_mqa = read_projection(c, "kv_a_proj_with_mqa", kv, hidden, attn);
  layer.kv_a_layernorm = attn.vector("kv_a_layernorm.weight", {c.kv_lora_rank, "kv_lora_rank"});
  layer.kv_b = attn.absorbed_halves(
      "kv_b_proj", c.num_heads, c.qk_nope_head_dim, c.v_head_dim, c.kv_lora_rank);
  layer.o_proj = read_projection(c, "o_proj", hidden, v, attn);
  if (c.has_indexer() && c.indexer_modes[i] == IndexerMode::kFull) {
    layer.indexer = read_indexer(attn.at("indexer."));
  }
  layer.mlp = read_feed_forward(c, c.moe_layers[i], weights);
  return layer;
}

Indexer MlaDecoder::read_indexer(WeightReader weights) const {
  const Dim dim{config_.index_head_dim, "index_head_dim"};
  const Dim heads{config_.index_heads, "index_n_heads"};
  const Dim hidden{config_.hidden_size, "hidden_size"};
  return {.wq_b = weights.matrix("wq_b",
                                 {heads.size * dim.size, "index_n_heads * index_head_dim"},
                                 {config_.q_lora_rank, "q_lora_rank"}),
          .wk = weights.matrix("wk", dim, hidden),
          .k_norm = weights.vector("k_norm.weight", dim),
          .k_norm_bias = weights.vector("k_norm.bias", dim),
          .weights_proj = weights.matrix("weights_proj", heads, hidden)};
}

void MlaDecoder::forward(ForwardContext& context) const {
  const Scratch::Frame frame(context.scratch);
  const int64_t tokens = context.batch.tokens();
  const Tensor hidden = embed_tokens(context, config_, trunk_);
  const Tensor selection = config_.has_indexer()
                               ? context.scratch.take(DType::kI32, {tokens, config_.index_top_k})
                               : Tensor();
  for (size_t i = 0; i < layers_.size(); ++i) {
    attention(context, i, hidden, selection);
    add_feed_forward(context, config_, layers_[i].mlp, hidden);
    observe(context, "hidden", i, hidden);
  }
  write_logits(context, config_, trunk_, hidden);
}

// q      = q_b(norm(q_a(x)))                    per head: nope | rope
// latent = norm(kv_a(x)[:latent]), k_rope = rope(kv_a(x)[latent:])          -> cache
// out    = o(W_uv attention(W_uk q_nope, rope(q_rope); selection))
void MlaDecoder::attention(ForwardContext& context,
                           size_t i,
                           const Tensor& hidden,
                           const Tensor& selection) const {
  const Layer& layer = layers_[i];
  const ModelConfig& c = config_;
  const KernelTable& kernels = context.kernels;
  Queue& queue = context.queue;
  const int64_t tokens = context.batch.tokens();
  const int64_t rope = c.qk_rope_head_dim;

  const Scratch::Frame frame(context.scratch);
  const Tensor normed = context.scratch.take({tokens, c.hidden_size});
  const Tensor q_latent = context.scratch.take({tokens, std::max<int64_t>(c.q_lora_rank, 1)});
  const Tensor q = context.scratch.take({tokens, c.num_heads * c.qk_head_dim()});
  const Tensor kv = context.scratch.take({tokens, c.kv_lora_rank + rope});
  const Tensor query = context.scratch.take({tokens, c.num_heads, c.kv_lora_rank});
  const Tensor mixed = context.scratch.take({tokens, c.num_heads, c.kv_lora_rank});
  const Tensor values = context.scratch.take({tokens, c.num_heads * c.v_head_dim});
  const Tensor q_heads = split_inner(q, c.num_heads, c.qk_head_dim());
  const Tensor q_nope = columns(q_heads, 0, c.qk_nope_head_dim);
  const Tensor q_rope = columns(q_heads, c.qk_nope_head_dim, rope);
  const Tensor latent = columns(kv, 0, c.kv_lora_rank);
  const Tensor k_rope = columns(kv, c.kv_lora_rank, rope);

  kernels.rms_norm(queue, {hidden, layer.input_layernorm, c.rms_norm_eps, normed});
  if (layer.q_a_proj.empty()) {
    kernels.matmul(queue, {normed, layer.q_proj, {}, q});
  } else {
    project(context, normed, layer.q_a_proj, q_latent);
    kernels.rms_norm(queue, {q_latent, layer.q_a_layernorm, c.latent_norm_eps, q_latent});
    kernels.matmul(queue, {q_latent, layer.q_b_proj, {}, q});
  }
  project(context, normed, layer.kv_a_proj_with_mqa, kv);
  kernels.rms_norm(queue, {latent, layer.kv_a_layernorm, c.latent_norm_eps, latent});
  rotate(context, rotary_, q_rope, c.rope_interleave);
  rotate(context, rotary_, split_inner(k_rope, 1, rope), c.rope_interleave);

  const LatentCache cache{.blocks = context.kv_blocks,
                          .block_stride = layout_.stride_bytes,
                          .offset = layout_.layers[i].rows,
                          .row = layout_.latent};
  kernels.store_latent(queue,
                       {.latent = latent, .rope = k_rope, .batch = context.batch, .cache = cache});
  if (!layer.indexer.empty()) select(context, i, normed, q_latent, selection);
  kernels.head_matmul(queue, {.x = q_nope, .weight = layer.kv_b.key, .out = query});
  kernels.mla_attention(queue,
                        {.q_latent = query,
                         .q_rope = q_rope,
                         .batch = context.batch,
                         .cache = cache,
                         .selection = selection,
                         .scale = softmax_scale_,
                         .out = mixed});
  kernels.head_matmul(queue,
                      {.x = mixed,
                       .weight = layer.kv_b.value,
                       .out = split_inner(values, c.num_heads, c.v_head_dim)});
  project(context, values, layer.o_proj, normed);
  kernels.add(queue, {.x = normed, .out = hidden});
}

// q = rope(wq_b q_latent), k = rope(layer_norm(wk x)): the first channels of a head rotate.
// score = sum over heads of weights_proj(x) * relu(q . k); the best index_topk are kept.
void MlaDecoder::select(ForwardContext& context,
                        size_t i,
                        const Tensor& normed,
                        const Tensor& q_latent,
                        const Tensor& selection) const {
  const Indexer& indexer = layers_[i].indexer;
  const ModelConfig& c = config_;
  const KernelTable& kernels = context.kernels;
  Queue& queue = context.queue;
  const int64_t tokens = context.batch.tokens();
  const auto max_context = static_cast<int64_t>(context.batch.max_context);
  // Scores of all tokens at once where they fit the budget, else in groups. The first take grows
  // with tokens and context, so that a plan for the largest step holds for every smaller one.
  const int64_t budget = std::min(tokens * max_context, std::max(kScoreBudget, max_context));
  const int64_t group = std::min(tokens, budget / max_context);

  const Scratch::Frame frame(context.scratch);
  const Tensor workspace = context.scratch.take({budget});
  const Tensor scores = make_tensor(workspace.data, DType::kF32, {group, max_context});
  const Tensor q = context.scratch.take({tokens, c.index_heads, c.index_head_dim});
  const Tensor keys = context.scratch.take({tokens, c.index_head_dim});
  const Tensor head_weights = context.scratch.take({tokens, c.index_heads});
  const Tensor q_flat =
      make_tensor(q.data, DType::kF32, {tokens, c.index_heads * c.index_head_dim});

  kernels.matmul(queue, {q_latent, indexer.wq_b, {}, q_flat});
  kernels.matmul(queue, {normed, indexer.wk, {}, keys});
  kernels.layer_norm(queue, {keys, indexer.k_norm, indexer.k_norm_bias, kIndexNormEpsilon, keys});
  rotate(context, rotary_, columns(q, 0, c.qk_rope_head_dim), c.indexer_rope_interleave);
  rotate(context,
         rotary_,
         columns(split_inner(keys, 1, c.index_head_dim), 0, c.qk_rope_head_dim),
         c.indexer_rope_interleave);
  kernels.matmul(queue, {normed, indexer.weights_proj, {}, head_weights});

  const IndexCache cache{.blocks = context.kv_blocks,
                         .block_stride = layout_.stride_bytes,
                         .offset = layout_.layers[i].index,
                         .page = layout_.index};
  const float scale = 1.0F / std::sqrt(static_cast<float>(c.index_head_dim * c.index_heads));
  kernels.store_index_keys(queue, {.keys = keys, .batch = context.batch, .cache = cache});
  kernels.index_select(queue,
                       {.q = q,
                        .head_weights = head_weights,
                        .batch = context.batch,
                        .cache = cache,
                        .scale = scale,
                        .scores = scores,
                        .selection = selection});
  if (group == tokens) observe(context, "index_scores", i, scores);
  observe(context, "selection", i, selection);
}

}  // namespace

std::unique_ptr<Model> build_mla_decoder(const ModelConfig& config,
                                         const CacheFormats& formats,
                                         WeightReader& weights) {
  return std::make_unique<MlaDecoder>(config, formats, weights);
}

}  // namespace baton
