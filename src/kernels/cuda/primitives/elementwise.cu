// Ops that touch each element once: embed, silu_mul, add, gather_rows.
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/primitives/weight_dot.cuh"

namespace baton::cuda {
namespace {

// The element of a [*, n] tensor that this thread works on; row may be past the end.
struct Element {
  int64_t row;
  int64_t column;
};
__device__ Element element_of(int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  return {i / n, i % n};
}

template <WeightForm kForm>
__global__ void embed_kernel(WeightView table,
                             const int32_t* token_ids,
                             Rows<float> out,
                             int64_t tokens) {
  const Element e = element_of(table.columns);
  if (e.row >= tokens) return;
  out.row(e.row)[e.column] = weight_value<kForm>(table, token_ids[e.row], e.column);
}

// silu(g) = g / (1 + exp(-g)); exp(-g) = inf gives -0, the limit.
__global__ void silu_mul_kernel(
    Rows<const float> gate, Rows<const float> up, Rows<float> out, int64_t tokens, int64_t n) {
  const Element e = element_of(n);
  if (e.row >= tokens) return;
  const float g = gate.row(e.row)[e.column];
  out.row(e.row)[e.column] = g / (1.0F + expf(-g)) * up.row(e.row)[e.column];
}

__global__ void add_kernel(Rows<const float> x, Rows<float> out, int64_t tokens, int64_t n) {
  const Element e = element_of(n);
  if (e.row < tokens) out.row(e.row)[e.column] += x.row(e.row)[e.column];
}

__global__ void gather_rows_kernel(
    Rows<const float> x, const int32_t* rows, Rows<float> out, int64_t count, int64_t n) {
  const Element e = element_of(n);
  if (e.row < count) out.row(e.row)[e.column] = x.row(rows[e.row])[e.column];
}

}  // namespace

void embed(Queue& queue, const EmbedArgs& args) {
  const int64_t tokens = args.out.dim(0);
  BATON_CHECK(args.out.dim(1) == args.table.columns, describe(args.out), args.table.columns);
  BATON_CHECK(args.token_ids.dim(0) == tokens, describe(args.token_ids), tokens);
  const auto run = [&](auto kernel) {
    launch(queue,
           "embed",
           kernel,
           grid_of(args.out.elements()),
           kThreads,
           0,
           args.table,
           i32_of(args.token_ids),
           rows_of(args.out),
           tokens);
  };
  switch (args.table.form) {
    case WeightForm::kF32:
      return run(&embed_kernel<WeightForm::kF32>);
    case WeightForm::kBF16:
      return run(&embed_kernel<WeightForm::kBF16>);
    case WeightForm::kF16:
      return run(&embed_kernel<WeightForm::kF16>);
    default:
      BATON_CHECK(
          false, "embed takes f32, bf16 or f16, got form", static_cast<int>(args.table.form));
  }
}

void silu_mul(Queue& queue, const SiluMulArgs& args) {
  launch(queue,
         "silu_mul",
         &silu_mul_kernel,
         grid_of(args.out.elements()),
         kThreads,
         0,
         rows_of(args.gate),
         rows_of(args.up),
         rows_of(args.out),
         args.out.dim(0),
         args.out.dim(1));
}

void add(Queue& queue, const AddArgs& args) {
  launch(queue,
         "add",
         &add_kernel,
         grid_of(args.out.elements()),
         kThreads,
         0,
         rows_of(args.x),
         rows_of(args.out),
         args.out.dim(0),
         args.out.dim(1));
}

void gather_rows(Queue& queue, const GatherRowsArgs& args) {
  launch(queue,
         "gather_rows",
         &gather_rows_kernel,
         grid_of(args.out.elements()),
         kThreads,
         0,
         rows_of(args.x),
         i32_of(args.rows),
         rows_of(args.out),
         args.out.dim(0),
         args.out.dim(1));
}

}  // namespace baton::cuda
