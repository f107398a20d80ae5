// Rotation by position, one thread per pair.
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"

namespace baton::cuda {
namespace {

__global__ void rope_kernel(Heads<float> x,
                            const int32_t* positions,
                            const float* inv_freq,
                            float attention_factor,
                            bool interleaved,
                            int64_t tokens,
                            int64_t heads,
                            int64_t half) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t token = at / (heads * half);
  if (token >= tokens) return;
  const int64_t head = at / half % heads;
  const int64_t i = at % half;
  const float angle = __fmul_rn(inv_freq[i], static_cast<float>(positions[token]));
  // In f64, then rounded: angles reach 1e6 at long contexts, and the result must not depend on
  // whose f32 argument reduction is the better one.
  double sine = 0.0;
  double cosine = 0.0;
  sincos(static_cast<double>(angle), &sine, &cosine);
  const float s = static_cast<float>(sine) * attention_factor;
  const float c = static_cast<float>(cosine) * attention_factor;
  float* row = x.row(token, head);
  float& a = row[interleaved ? 2 * i : i];
  float& b = row[interleaved ? 2 * i + 1 : i + half];
  const float first = a;
  const float second = b;
  a = __fsub_rn(__fmul_rn(first, c), __fmul_rn(second, s));
  b = __fadd_rn(__fmul_rn(second, c), __fmul_rn(first, s));
}

}  // namespace

void rope(Queue& queue, const RopeArgs& args) {
  const int64_t half = args.x.dim(2) / 2;
  BATON_CHECK(args.inv_freq.dim(0) == half, describe(args.x), describe(args.inv_freq));
  launch(queue,
         "rope",
         &rope_kernel,
         grid_of(args.x.dim(0) * args.x.dim(1) * half),
         kThreads,
         0,
         heads_of(args.x),
         i32_of(args.positions),
         vector_of(args.inv_freq),
         args.attention_factor,
         args.interleaved,
         args.x.dim(0),
         args.x.dim(1),
         half);
}

}  // namespace baton::cuda
