// out = x W^T (+ bias) and its per-head form. A warp owns one weight row and up to kTile
// activation rows, so that each weight is expanded once per tile.
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/primitives/weight_dot.cuh"

namespace baton::cuda {
namespace {

// blockIdx: x = group of kWarps weight rows, y = tile of activation rows, z = head. Without
// heads every head stride is 0.
template <WeightForm kForm, int kTile>
__global__ void __launch_bounds__(kThreads) matmul_kernel(Heads<const float> x,
                                                          WeightView weight,
                                                          int64_t head_bytes,
                                                          const float* bias,
                                                          Heads<float> out,
                                                          int64_t m) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= weight.rows) return;
  const int64_t head = blockIdx.z;
  weight.data = static_cast<const uint8_t*>(weight.data) + head * head_bytes;
  for (int64_t first = int64_t{blockIdx.y} * kTile; first < m;
       first += int64_t{gridDim.y} * kTile) {
    const int count = static_cast<int>(m - first < kTile ? m - first : kTile);
    const float* inputs[kTile];
#pragma unroll
    for (int i = 0; i < kTile; ++i) inputs[i] = x.row(i < count ? first + i : first, head);
    float sums[kTile];
    warp_dot<kForm, kTile>(weight, row, inputs, count, sums);
    if (threadIdx.x % kWarp != 0) continue;
    const float offset = bias != nullptr ? bias[row] : 0.0F;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
      if (i < count) out.row(first + i, head)[row] = sums[i] + offset;
    }
  }
}

struct Problem {
  const char* op;
  Heads<const float> x;
  WeightView weight;
  int64_t head_bytes;
  const float* bias;
  Heads<float> out;
  int64_t m;
  int64_t heads;
};

template <WeightForm kForm, int kTile>
void launch_tile(Queue& queue, const Problem& p) {
  const int64_t tiles = std::min(ceil_div(p.m, kTile), kMaxGridY);
  launch(queue,
         p.op,
         &matmul_kernel<kForm, kTile>,
         grid(ceil_div(p.weight.rows, kWarps), tiles, p.heads),
         kThreads,
         0,
         p.x,
         p.weight,
         p.head_bytes,
         p.bias,
         p.out,
         p.m);
}

template <WeightForm kForm>
void launch_form(Queue& queue, const Problem& p) {
  p.m == 1 ? launch_tile<kForm, 1>(queue, p) : launch_tile<kForm, 8>(queue, p);
}

void launch_any(Queue& queue, const Problem& p) {
  switch (p.weight.form) {
    case WeightForm::kF32:
      return launch_form<WeightForm::kF32>(queue, p);
    case WeightForm::kBF16:
      return launch_form<WeightForm::kBF16>(queue, p);
    case WeightForm::kF16:
      return launch_form<WeightForm::kF16>(queue, p);
    case WeightForm::kFp8Block:
      return launch_form<WeightForm::kFp8Block>(queue, p);
    case WeightForm::kNvfp4:
      return launch_form<WeightForm::kNvfp4>(queue, p);
  }
}

WeightForm form_of(DType dtype) {
  BATON_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16,
              dtype_name(dtype));
  if (dtype == DType::kBF16) return WeightForm::kBF16;
  return dtype == DType::kF16 ? WeightForm::kF16 : WeightForm::kF32;
}

}  // namespace

void matmul(Queue& queue, const MatmulArgs& args) {
  BATON_CHECK(args.x.dim(1) == args.weight.columns, describe(args.x), args.weight.columns);
  BATON_CHECK(args.out.dim(1) == args.weight.rows, describe(args.out), args.weight.rows);
  BATON_CHECK(args.out.dim(0) == args.x.dim(0), describe(args.out), describe(args.x));
  const Rows<const float> x = rows_of(args.x);
  const Rows<float> out = rows_of(args.out);
  launch_any(queue,
             {.op = "matmul",
              .x = {x.data, x.stride, 0},
              .weight = args.weight,
              .head_bytes = 0,
              .bias = vector_of(args.bias),
              .out = {out.data, out.stride, 0},
              .m = args.x.dim(0),
              .heads = 1});
}

void head_matmul(Queue& queue, const HeadMatmulArgs& args) {
  BATON_CHECK(args.weight.rank == 3 && args.weight.stride(1) == args.weight.dim(2),
              describe(args.weight));
  BATON_CHECK(args.x.dim(1) == args.weight.dim(0) && args.x.dim(2) == args.weight.dim(2),
              describe(args.x),
              describe(args.weight));
  BATON_CHECK(args.out.dim(1) == args.weight.dim(0) && args.out.dim(2) == args.weight.dim(1),
              describe(args.out),
              describe(args.weight));
  launch_any(queue,
             {.op = "head_matmul",
              .x = heads_of(args.x),
              .weight = {.data = args.weight.data,
                         .rows = args.weight.dim(1),
                         .columns = args.weight.dim(2),
                         .form = form_of(args.weight.dtype)},
              .head_bytes = args.weight.stride(0) * dtype_bytes(args.weight.dtype),
              .bias = nullptr,
              .out = heads_of(args.out),
              .m = args.x.dim(0),
              .heads = args.weight.dim(0)});
}

}  // namespace baton::cuda
