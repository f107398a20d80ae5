// Rotary frequencies of every scaling type, computed once when a model is loaded. Frequencies
// depend on the checkpoint alone, never on the length a server is started with.
//
// Source: "YaRN" (arXiv 2309.00071), "LongRoPE" (2402.13753), Llama 3.1 model card, and the
// parameters' meaning in transformers 5.17 modeling_rope_utils.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/config.h"

namespace baton {

struct Rope {
  std::vector<float> inv_freq;    // [width / 2]
  float attention_factor = 1.0F;  // multiplies cos and sin
  float score_factor = 1.0F;      // multiplies the softmax scale: mscale^2 of the latent families
};

// `width`: rotated channels of a head. `max_position`: max_position_embeddings of the
// checkpoint. Longrope uses its long factors when that is beyond the original length; dynamic
// scaling acts beyond max_position only, so within it the frequencies are the default ones.
Result<Rope> make_rope(const RopeConfig& config, int64_t width, int64_t max_position);

// 0.1 * mscale * ln(factor) + 1, or 1 for factor <= 1.
double yarn_mscale(double factor, double mscale);

// The dimensions between which YaRN's ramp runs: below `low` the frequency is kept, above `high`
// it is divided by the factor.
struct YarnRange {
  double low = 0.0;
  double high = 0.0;
};
YarnRange yarn_range(const RopeConfig& config, int64_t width);

}  // namespace baton
