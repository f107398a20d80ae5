// The feed-forward half of a layer: a dense SwiGLU, or routed experts with an optional shared
// one. What a layer lacks is empty. The same for every data flow.
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
  SwiGlu dense;    // layers without experts
  Experts routed;  // layers with experts
  SwiGlu shared;   // the shared expert, added unscaled
};

// `weights` is at "model.layers.N.mlp.".
FeedForward read_feed_forward(const ModelConfig& config, bool has_experts, WeightReader weights);

// out = feed_forward(x); x and out [tokens, hidden], not aliased.
void run_feed_forward(ForwardContext& context,
                      const ModelConfig& config,
                      const FeedForward& layer,
                      const ConstTensor& x,
                      const Tensor& out);

}  // namespace baton
