#include "model/architectures/attention.h"

#include "base/check.h"
#include "model/rope.h"

namespace baton {

Projection read_projection(
    const ModelConfig& config, const std::string& name, Dim out, Dim in, WeightReader& weights) {
  return {.weight = weights.matrix(name, out, in),
          .bias = weights.vector_if(config.attention_bias, name + ".bias", out)};
}

void project(ForwardContext& context,
             const ConstTensor& x,
             const Projection& projection,
             const Tensor& out) {
  context.kernels.matmul(
      context.queue, {.x = x, .weight = projection.weight, .bias = projection.bias, .out = out});
}

Rotary read_rotary(const ModelConfig& config, int64_t width, WeightReader& weights) {
  const Result<Rope> rope = make_rope(config.rope, width, config.max_position_embeddings);
  BATON_CHECK(rope.has_value(), "rope was checked when the model was planned");
  return {.inv_freq = weights.constants(rope->inv_freq),
          .attention_factor = rope->attention_factor,
          .score_factor = rope->score_factor};
}

void rotate(ForwardContext& context, const Rotary& rotary, const Tensor& x, bool interleaved) {
  context.kernels.rope(context.queue,
                       {.x = x,
                        .positions = context.batch.positions,
                        .inv_freq = rotary.inv_freq,
                        .attention_factor = rotary.attention_factor,
                        .interleaved = interleaved});
}

}  // namespace baton
