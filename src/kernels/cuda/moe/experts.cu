// The MoE block over token-expert pairs (pair = token * top_k + j), without a host round trip:
//   1  activation[pair] = silu(gate_e x[token]) * (up_e x[token])
//   2  result[pair] = down_e activation[pair]
//   3  out[token] = sum over its pairs of weight * result, ascending by expert id
// Few pairs: a warp per weight row and pair. Many pairs: a warp per weight row and expert, which
// finds the pairs of its expert by itself, kTile at a time, and expands each weight once for
// them. Both give the same bits.
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/primitives/weight_dot.cuh"

namespace baton::cuda {
namespace {

constexpr int kTile = 8;
constexpr int kGate = 0;
constexpr int kUp = 1;
constexpr int kDown = 2;

struct Experts {
  const WeightView* matrices;  // [expert_count][3]
  Rows<const int32_t> chosen;  // [tokens, top_k]
  int32_t top_k;
  int32_t pairs;

  __device__ int32_t expert_of(int32_t pair) const {
    return chosen.row(pair / top_k)[pair % top_k];
  }
};

// Stage 1: rows of x in, activations out.
struct GateUp {
  Rows<const float> x;     // [tokens, hidden]
  Rows<float> activation;  // [pairs, intermediate]

  template <int kCount>
  __device__ void run(const Experts& experts,
                      int32_t expert,
                      int64_t row,
                      const int32_t (&pair)[kCount],
                      int count) const {
    const float* inputs[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) inputs[i] = x.row(pair[i] / experts.top_k);
    float gate[kCount];
    float up[kCount];
    const WeightView* matrices = experts.matrices + int64_t{3} * expert;
    warp_dot_any<kCount>(matrices[kGate], row, inputs, count, gate);
    warp_dot_any<kCount>(matrices[kUp], row, inputs, count, up);
    if (threadIdx.x % kWarp != 0) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < count) activation.row(pair[i])[row] = gate[i] / (1.0F + expf(-gate[i])) * up[i];
    }
  }
};

// Stage 2: activations in, results out.
struct Down {
  Rows<const float> activation;  // [pairs, intermediate]
  Rows<float> result;            // [pairs, hidden]

  template <int kCount>
  __device__ void run(const Experts& experts,
                      int32_t expert,
                      int64_t row,
                      const int32_t (&pair)[kCount],
                      int count) const {
    const float* inputs[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) inputs[i] = activation.row(pair[i]);
    float sums[kCount];
    warp_dot_any<kCount>(experts.matrices[int64_t{3} * expert + kDown], row, inputs, count, sums);
    if (threadIdx.x % kWarp != 0) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < count) result.row(pair[i])[row] = sums[i];
    }
  }
};

// blockIdx: x = group of kWarps weight rows, y = pair.
template <typename Stage>
__global__ void __launch_bounds__(kThreads)
    per_pair_kernel(Stage stage, Experts experts, int64_t rows) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int32_t pair[1] = {static_cast<int32_t>(blockIdx.y)};
  stage.template run<1>(experts, experts.expert_of(pair[0]), row, pair, 1);
}

// blockIdx: x = group of kWarps weight rows, y = expert. Each warp walks all pairs; a lane
// looks at one of 32, and the hits are worked off in ascending order, kTile at a time.
template <typename Stage>
__global__ void __launch_bounds__(kThreads)
    per_expert_kernel(Stage stage, Experts experts, int64_t rows) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int32_t expert = static_cast<int32_t>(blockIdx.y);
  const int32_t lane = static_cast<int32_t>(threadIdx.x % kWarp);
  __shared__ int32_t waiting_of[kWarps][kWarp + kTile];
  int32_t* waiting = waiting_of[threadIdx.x / kWarp];
  int32_t count = 0;
  const auto work_off = [&](int32_t first, int32_t taken) {
    int32_t pair[kTile];
#pragma unroll
    for (int i = 0; i < kTile; ++i) pair[i] = waiting[first + (i < taken ? i : 0)];
    stage.template run<kTile>(experts, expert, row, pair, taken);
  };
  for (int32_t first = 0; first < experts.pairs; first += kWarp) {
    const int32_t pair = first + lane;
    const bool hit = pair < experts.pairs && experts.expert_of(pair) == expert;
    const unsigned hits = __ballot_sync(kAllLanes, hit);
    if (hit) waiting[count + __popc(hits & ((1U << lane) - 1U))] = pair;
    count += __popc(hits);
    __syncwarp();
    int32_t done = 0;
    for (; count - done >= kTile; done += kTile) work_off(done, kTile);
    if (done == 0) continue;
    const int32_t rest = count - done;  // < kTile
    const int32_t moved = lane < rest ? waiting[done + lane] : 0;
    __syncwarp();
    if (lane < rest) waiting[lane] = moved;
    __syncwarp();
    count = rest;
  }
  if (count > 0) work_off(0, count);
}

// One thread per output value. Routers give ascending experts; other orders are put right.
__global__ void combine_kernel(Experts experts,
                               Rows<const float> weights,
                               Rows<const float> result,
                               Rows<float> out,
                               int64_t tokens,
                               int64_t hidden) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t token = at / hidden;
  if (token >= tokens) return;
  const int64_t column = at % hidden;
  const int32_t* chosen = experts.chosen.row(token);
  float sum = 0.0F;
  int64_t last = -1;  // (expert, place) of the pair added last, as one ordered number
  for (int32_t added = 0; added < experts.top_k; ++added) {
    int64_t next = INT64_MAX;
    for (int32_t j = 0; j < experts.top_k; ++j) {
      const int64_t key = int64_t{chosen[j]} * experts.top_k + j;
      if (key > last && key < next) next = key;
    }
    last = next;
    const int64_t j = next % experts.top_k;
    sum = fmaf(weights.row(token)[j], result.row(token * experts.top_k + j)[column], sum);
  }
  out.row(token)[column] = sum;
}

template <typename Stage>
void launch_stage(
    Queue& queue, const Stage& stage, const Experts& experts, int64_t expert_count, int64_t rows) {
  const int64_t blocks = ceil_div(rows, kWarps);
  const bool few = experts.pairs <= expert_count * 2 && experts.pairs <= kMaxGridY;
  few ? launch(queue,
               "moe",
               &per_pair_kernel<Stage>,
               grid(blocks, experts.pairs),
               kThreads,
               0,
               stage,
               experts,
               rows)
      : launch(queue,
               "moe",
               &per_expert_kernel<Stage>,
               grid(blocks, expert_count),
               kThreads,
               0,
               stage,
               experts,
               rows);
}

// The first `n` columns of rows [first, first + count) of the workspace.
Rows<float> workspace_rows(const Tensor& workspace, int64_t first, int64_t count) {
  return rows_of(rows(workspace, first, count));
}

}  // namespace

void moe(Queue& queue, const MoeArgs& args) {
  const int64_t tokens = args.x.dim(0);
  const int64_t hidden = args.x.dim(1);
  const int64_t pairs = tokens * args.experts.dim(1);
  BATON_CHECK(pairs <= INT32_MAX && args.workspace.dim(0) >= 2 * pairs &&
                  args.workspace.dim(1) >= std::max(hidden, args.intermediate),
              describe(args.workspace),
              pairs);
  const Experts experts = {args.matrices,
                           i32_rows_of(args.experts),
                           static_cast<int32_t>(args.experts.dim(1)),
                           static_cast<int32_t>(pairs)};
  const Rows<float> activation = workspace_rows(args.workspace, 0, pairs);
  const Rows<float> result = workspace_rows(args.workspace, pairs, pairs);
  launch_stage(
      queue, GateUp{rows_of(args.x), activation}, experts, args.expert_count, args.intermediate);
  launch_stage(queue,
               Down{{activation.data, activation.stride}, result},
               experts,
               args.expert_count,
               hidden);
  launch(queue,
         "moe",
         &combine_kernel,
         grid_of(tokens * hidden),
         kThreads,
         0,
         experts,
         rows_of(args.weights),
         Rows<const float>{result.data, result.stride},
         rows_of(args.out),
         tokens,
         hidden);
}

}  // namespace baton::cuda
