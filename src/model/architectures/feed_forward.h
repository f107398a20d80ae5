// The feed-forward half of a layer: a norm, then a dense SwiGLU or routed experts with an optional
// shared one. What a layer lacks is empty. The same for every data flow.
#pragma once

#include <cstdint>

#include "model/model.h"
#include "model/weights/weight_reader.h"

namespace baton {

// down(silu(gate x) * up x)
struct SwiGlu {
  WeightView gate_proj, up_proj;  // [intermediate, hidden]
  WeightView down_proj;           // [hidden, intermediate]

  bool empty() const { return gate_proj.empty(); }
};

struct Experts {
  WeightView gate;                       // router [experts, hidden]
  ConstTensor e_score_correction_bias;   // [experts] or empty: enters the choice only
  const WeightView* matrices = nullptr;  // device, [experts][3]: gate, up, down
};

struct FeedForward {
  ConstTensor norm;  // post_attention_layernorm [hidden]
  SwiGlu dense;      // layers without experts
  Experts routed;    // layers with experts
  SwiGlu shared;     // the shared expert, added unscaled
};

// `weights` is at "model.layers.N.".
FeedForward read_feed_forward(const ModelConfig& config, bool has_experts, WeightReader weights);

// hidden += feed_forward(norm(hidden)); hidden: [tokens, hidden]
void add_feed_forward(ForwardContext& context,
                      const ModelConfig& config,
                      const FeedForward& layer,
                      const Tensor& hidden);

}  // namespace baton
