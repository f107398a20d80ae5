// What the attention half of a layer is made of in every data flow: projections with an optional
// bias, and the rotation of queries and keys.
#pragma once

#include <string>

#include "model/model.h"
#include "model/weights/weight_reader.h"

namespace baton {

struct Projection {
  WeightView weight;  // [out, in]
  ConstTensor bias;   // [out] or empty

  bool empty() const { return weight.empty(); }
};

// `name`.weight and, with attention_bias, `name`.bias.
Projection read_projection(
    const ModelConfig& config, const std::string& name, Dim out, Dim in, WeightReader& weights);

// out = weight x + bias
void project(ForwardContext& context,
             const ConstTensor& x,
             const Projection& projection,
             const Tensor& out);

struct Rotary {
  ConstTensor inv_freq;           // [width / 2]
  float attention_factor = 1.0F;  // multiplies cos and sin
  float score_factor = 1.0F;      // multiplies the softmax scale
};

// `width`: rotated channels. The configuration's rope was checked before any weight is read.
Rotary read_rotary(const ModelConfig& config, int64_t width, WeightReader& weights);

// x [tokens, heads, width], in place.
void rotate(ForwardContext& context, const Rotary& rotary, const Tensor& x, bool interleaved);

}  // namespace baton
