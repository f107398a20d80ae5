// Index of the largest value per row; one block per row.
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/primitives/reduce.cuh"

namespace baton::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    argmax_kernel(Rows<const float> logits, int64_t vocab, int32_t* out) {
  __shared__ Best partial[kWarps];
  const float* row = logits.row(blockIdx.x);
  Best best = {0.0F, -1};
  bool saw_nan = false;
  for (int64_t i = threadIdx.x; i < vocab; i += kThreads) {
    const float value = row[i];
    saw_nan |= isnan(value);
    best = better(best, {value, static_cast<int32_t>(i)});
  }
  const bool any_nan = __syncthreads_or(saw_nan ? 1 : 0) != 0;
  best = warp_best(best);
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kWarps; ++w) best = better(best, partial[w]);
  out[blockIdx.x] = any_nan || isinf(best.value) ? -1 : best.index;
}

}  // namespace

void argmax(Queue& queue, const ArgmaxArgs& args) {
  BATON_CHECK(args.out.dtype == DType::kI32, describe(args.out));
  launch(queue,
         "argmax",
         &argmax_kernel,
         grid(args.logits.dim(0)),
         kThreads,
         0,
         rows_of(args.logits),
         args.logits.dim(1),
         args.out.as<int32_t>());
}

}  // namespace baton::cuda
