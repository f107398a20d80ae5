// rms_norm and layer_norm: one block per row. Every thread reads its own elements again after
// the reduction, so out may alias x.
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/primitives/reduce.cuh"

namespace baton::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) rms_norm_kernel(
    Rows<const float> x, const float* weight, float epsilon, Rows<float> out, int64_t n) {
  const float* from = x.row(blockIdx.x);
  float* to = out.row(blockIdx.x);
  float squares = 0.0F;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) squares = fmaf(from[i], from[i], squares);
  const float mean = block_sum(squares) / static_cast<float>(n);
  const float scale = 1.0F / sqrtf(mean + epsilon);
  for (int64_t i = threadIdx.x; i < n; i += kThreads) to[i] = from[i] * scale * weight[i];
}

__global__ void __launch_bounds__(kThreads) layer_norm_kernel(Rows<const float> x,
                                                              const float* weight,
                                                              const float* bias,
                                                              float epsilon,
                                                              Rows<float> out,
                                                              int64_t n) {
  const float* from = x.row(blockIdx.x);
  float* to = out.row(blockIdx.x);
  float sum = 0.0F;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) sum += from[i];
  const float mean = block_sum(sum) / static_cast<float>(n);
  float squares = 0.0F;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    const float centred = from[i] - mean;
    squares = fmaf(centred, centred, squares);
  }
  const float variance = block_sum(squares) / static_cast<float>(n);
  const float scale = 1.0F / sqrtf(variance + epsilon);
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    to[i] = fmaf((from[i] - mean) * scale, weight[i], bias[i]);
  }
}

}  // namespace

void rms_norm(Queue& queue, const RmsNormArgs& args) {
  launch(queue,
         "rms_norm",
         &rms_norm_kernel,
         grid(args.x.dim(0)),
         kThreads,
         0,
         rows_of(args.x),
         vector_of(args.weight),
         args.epsilon,
         rows_of(args.out),
         args.x.dim(1));
}

void layer_norm(Queue& queue, const LayerNormArgs& args) {
  launch(queue,
         "layer_norm",
         &layer_norm_kernel,
         grid(args.x.dim(0)),
         kThreads,
         0,
         rows_of(args.x),
         vector_of(args.weight),
         vector_of(args.bias),
         args.epsilon,
         rows_of(args.out),
         args.x.dim(1));
}

}  // namespace baton::cuda
