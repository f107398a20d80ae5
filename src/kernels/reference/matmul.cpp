#include <vector>

#include "kernels/reference/dot.h"
#include "kernels/reference/ops.h"
#include "kernels/reference/weights.h"

namespace baton::reference {

void matmul(Queue&, const MatmulArgs& args) {
  const int64_t k = args.weight.columns;
  BATON_CHECK(args.x.dim(1) == k, args.x.dim(1), k);
  BATON_CHECK(args.out.dim(1) == args.weight.rows, args.out.dim(1), args.weight.rows);
  const auto* bias = args.bias.as<float>();
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t n = 0; n < args.weight.rows; ++n) {
    expand_row(args.weight, n, row.data());
    for (int64_t m = 0; m < args.x.dim(0); ++m) {
      const float* x = args.x.as<float>() + m * args.x.stride(0);
      const auto sum = static_cast<float>(dot(x, row.data(), k));
      args.out.as<float>()[m * args.out.stride(0) + n] = bias == nullptr ? sum : sum + bias[n];
    }
  }
}

void head_matmul(Queue&, const HeadMatmulArgs& args) {
  const int64_t heads = args.weight.dim(0);
  const int64_t rows = args.weight.dim(1);
  const int64_t k = args.weight.dim(2);
  BATON_CHECK(args.weight.contiguous());
  BATON_CHECK(args.x.dim(1) == heads && args.x.dim(2) == k, args.x.dim(1), args.x.dim(2));
  BATON_CHECK(args.out.dim(1) == heads && args.out.dim(2) == rows, args.out.dim(1));
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t n = 0; n < rows; ++n) {
      expand_values(args.weight.data, args.weight.dtype, (h * rows + n) * k, k, row.data());
      for (int64_t t = 0; t < args.x.dim(0); ++t) {
        const float* x = args.x.as<float>() + t * args.x.stride(0) + h * args.x.stride(1);
        float* out = args.out.as<float>() + t * args.out.stride(0) + h * args.out.stride(1);
        out[n] = static_cast<float>(dot(x, row.data(), k));
      }
    }
  }
}

}  // namespace baton::reference
