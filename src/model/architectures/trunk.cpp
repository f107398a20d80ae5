#include "model/architectures/trunk.h"

namespace baton {

Trunk read_trunk(const ModelConfig& config, WeightReader& weights) {
  const Dim vocab{config.vocab_size, "vocab_size"};
  const Dim hidden{config.hidden_size, "hidden_size"};
  Trunk trunk{.embed_tokens = weights.table("model.embed_tokens", vocab, hidden),
              .norm = weights.vector("model.norm.weight", hidden),
              .lm_head = {}};
  if (config.tie_word_embeddings && !weights.has("lm_head.weight")) {
    trunk.lm_head = trunk.embed_tokens;
    return trunk;
  }
  trunk.lm_head = weights.matrix("lm_head", vocab, hidden);
  if (config.tie_word_embeddings) {
    weights.warn_if_different("lm_head.weight",
                              "model.embed_tokens.weight",
                              "tie_word_embeddings is true, but lm_head.weight differs from "
                              "model.embed_tokens.weight; lm_head.weight is used");
  }
  return trunk;
}

Tensor embed_tokens(ForwardContext& context, const ModelConfig& config, const Trunk& trunk) {
  const Tensor hidden = context.scratch.take({context.batch.tokens(), config.hidden_size});
  context.kernels.embed(
      context.queue, {.table = trunk.embed_tokens, .token_ids = context.token_ids, .out = hidden});
  return hidden;
}

void write_logits(ForwardContext& context,
                  const ModelConfig& config,
                  const Trunk& trunk,
                  const Tensor& hidden) {
  if (context.sampled_rows.rank == 0 || context.sampled_rows.dim(0) == 0) return;
  const Scratch::Frame frame(context.scratch);
  const Tensor last = context.scratch.take({context.sampled_rows.dim(0), config.hidden_size});
  const KernelTable& kernels = context.kernels;
  Queue& queue = context.queue;
  kernels.gather_rows(queue, {.x = hidden, .rows = context.sampled_rows, .out = last});
  kernels.rms_norm(queue,
                   {.x = last, .weight = trunk.norm, .epsilon = config.rms_norm_eps, .out = last});
  kernels.matmul(queue, {.x = last, .weight = trunk.lm_head, .bias = {}, .out = context.logits});
  observe(context, "logits", 0, context.logits);
}

}  // namespace baton
