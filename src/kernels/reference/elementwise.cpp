#include <algorithm>
#include <cmath>

#include "kernels/reference/ops.h"

namespace baton::reference {

void silu_mul(Queue&, const SiluMulArgs& args) {
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    const float* gate = args.gate.as<float>() + t * args.gate.stride(0);
    const float* up = args.up.as<float>() + t * args.up.stride(0);
    float* out = args.out.as<float>() + t * args.out.stride(0);
    for (int64_t i = 0; i < args.out.dim(1); ++i) {
      out[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
    }
  }
}

void add(Queue&, const AddArgs& args) {
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    const float* x = args.x.as<float>() + t * args.x.stride(0);
    float* out = args.out.as<float>() + t * args.out.stride(0);
    for (int64_t i = 0; i < args.out.dim(1); ++i) out[i] += x[i];
  }
}

void gather_rows(Queue&, const GatherRowsArgs& args) {
  const auto* rows = args.rows.as<int32_t>();
  const int64_t n = args.x.dim(1);
  BATON_CHECK(args.out.dim(1) == n, args.out.dim(1), n);
  for (int64_t r = 0; r < args.out.dim(0); ++r) {
    BATON_CHECK(rows[r] >= 0 && rows[r] < args.x.dim(0), rows[r], args.x.dim(0));
    const float* x = args.x.as<float>() + rows[r] * args.x.stride(0);
    std::copy(x, x + n, args.out.as<float>() + r * args.out.stride(0));
  }
}

}  // namespace baton::reference
