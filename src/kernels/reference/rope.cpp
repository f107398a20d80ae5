#include <cmath>

#include "kernels/reference/ops.h"

namespace baton::reference {
namespace {

// x: [n] of one head.
void rotate(float* x, int64_t pair, int64_t pairs, bool interleaved, float cosine, float sine) {
  float& first = interleaved ? x[2 * pair] : x[pair];
  float& second = interleaved ? x[2 * pair + 1] : x[pair + pairs];
  const float a = first;
  const float b = second;
  first = a * cosine - b * sine;
  second = b * cosine + a * sine;
}

}  // namespace

void rope(Queue&, const RopeArgs& args) {
  const int64_t pairs = args.x.dim(2) / 2;
  BATON_CHECK(args.inv_freq.dim(0) == pairs, args.inv_freq.dim(0), pairs);
  const auto* positions = args.positions.as<int32_t>();
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    for (int64_t i = 0; i < pairs; ++i) {
      // The angle is rounded to f32 before the cosine: at long range that is what decides.
      const float angle = args.inv_freq.as<float>()[i] * static_cast<float>(positions[t]);
      const auto cosine = static_cast<float>(std::cos(static_cast<double>(angle)));
      const auto sine = static_cast<float>(std::sin(static_cast<double>(angle)));
      for (int64_t h = 0; h < args.x.dim(1); ++h) {
        float* x = args.x.as<float>() + t * args.x.stride(0) + h * args.x.stride(1);
        rotate(x,
               i,
               pairs,
               args.interleaved,
               cosine * args.attention_factor,
               sine * args.attention_factor);
      }
    }
  }
}

}  // namespace baton::reference
