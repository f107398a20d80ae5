#include <cmath>

#include "kernels/reference/dot.h"
#include "kernels/reference/ops.h"

namespace baton::reference {

void rms_norm(Queue&, const RmsNormArgs& args) {
  const int64_t n = args.x.dim(1);
  const auto* weight = args.weight.as<float>();
  BATON_CHECK(args.weight.dim(0) == n && args.out.dim(1) == n, args.weight.dim(0), n);
  for (int64_t r = 0; r < args.x.dim(0); ++r) {
    const float* x = args.x.as<float>() + r * args.x.stride(0);
    float* out = args.out.as<float>() + r * args.out.stride(0);
    const double mean_square = dot(x, x, n) / static_cast<double>(n);
    const auto inverse = static_cast<float>(1.0 / std::sqrt(mean_square + args.epsilon));
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] * inverse * weight[i];
  }
}

void layer_norm(Queue&, const LayerNormArgs& args) {
  const int64_t n = args.x.dim(1);
  const auto* weight = args.weight.as<float>();
  const auto* bias = args.bias.as<float>();
  BATON_CHECK(args.weight.dim(0) == n && args.bias.dim(0) == n && args.out.dim(1) == n, n);
  for (int64_t r = 0; r < args.x.dim(0); ++r) {
    const float* x = args.x.as<float>() + r * args.x.stride(0);
    float* out = args.out.as<float>() + r * args.out.stride(0);
    double mean = 0.0;
    for (int64_t i = 0; i < n; ++i) mean += static_cast<double>(x[i]);
    mean /= static_cast<double>(n);
    double variance = 0.0;
    for (int64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
    variance /= static_cast<double>(n);
    const double inverse = 1.0 / std::sqrt(variance + args.epsilon);
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<float>((x[i] - mean) * inverse) * weight[i] + bias[i];
    }
  }
}

}  // namespace baton::reference
