// Chooses experts: one warp per token, its scores in shared memory.
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/primitives/reduce.cuh"

namespace baton::cuda {
namespace {

struct Routing {
  RouterScoring scoring;
  GroupScore group_score;
  int32_t experts;
  int32_t groups;
  int32_t top_groups;
  int32_t top_k;
  bool normalize;
  float scaling_factor;
};

// score[e] of all experts, by the whole warp.
__device__ void score_experts(const Routing& r, const float* logits, float* score) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x);
  if (r.scoring == RouterScoring::kSigmoid) {
    for (int32_t e = lane; e < r.experts; e += kWarp) score[e] = 1.0F / (1.0F + expf(-logits[e]));
    return;
  }
  float maximum = -INFINITY;
  for (int32_t e = lane; e < r.experts; e += kWarp) maximum = fmaxf(maximum, logits[e]);
  maximum = warp_max(maximum);
  float sum = 0.0F;
  for (int32_t e = lane; e < r.experts; e += kWarp) {
    score[e] = expf(logits[e] - maximum);
    sum += score[e];
  }
  sum = warp_sum(sum);
  for (int32_t e = lane; e < r.experts; e += kWarp) score[e] /= sum;
}

// The index of the best untaken value of `values`, which it marks as taken. The whole warp
// calls it.
__device__ int32_t take_best(const float* values, int32_t count, bool* taken) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x);
  Best best = {0.0F, -1};
  for (int32_t i = lane; i < count; i += kWarp) {
    if (!taken[i]) best = better(best, {values[i], i});
  }
  best = warp_best(best);
  __syncwarp();
  if (lane == 0) taken[best.index] = true;
  __syncwarp();
  return best.index;
}

// The score of group g by one lane.
__device__ float group_value(const Routing& r, const float* choice, int32_t g) {
  const int32_t size = r.experts / r.groups;
  float first = -INFINITY;
  float second = -INFINITY;
  for (int32_t e = g * size; e < (g + 1) * size; ++e) {
    second = fmaxf(second, fminf(first, choice[e]));
    first = fmaxf(first, choice[e]);
  }
  return r.group_score == GroupScore::kMax || size == 1 ? first : first + second;
}

// choice = -inf in every expert outside the kept groups.
__device__ void limit_groups(const Routing& r, float* choice, float* value, bool* kept) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x);
  for (int32_t g = lane; g < r.groups; g += kWarp) {
    value[g] = group_value(r, choice, g);
    kept[g] = false;
  }
  __syncwarp();
  for (int32_t i = 0; i < r.top_groups; ++i) take_best(value, r.groups, kept);
  const int32_t size = r.experts / r.groups;
  for (int32_t e = lane; e < r.experts; e += kWarp) {
    if (!kept[e / size]) choice[e] = -INFINITY;
  }
  __syncwarp();
}

// Shared memory: score, choice [experts]; group values [groups]; flags [experts + groups].
__global__ void __launch_bounds__(kWarp) route_kernel(Routing r,
                                                      Rows<const float> logits,
                                                      const float* bias,
                                                      Rows<int32_t> experts,
                                                      Rows<float> weights) {
  float* score = dynamic_shared<float>();
  float* choice = score + r.experts;
  float* group_values = choice + r.experts;
  bool* taken = reinterpret_cast<bool*>(group_values + r.groups);
  bool* kept = taken + r.experts;
  const int32_t lane = static_cast<int32_t>(threadIdx.x);
  const int64_t token = blockIdx.x;

  score_experts(r, logits.row(token), score);
  for (int32_t e = lane; e < r.experts; e += kWarp) {
    choice[e] = score[e] + (bias != nullptr ? bias[e] : 0.0F);
    taken[e] = false;
  }
  __syncwarp();
  if (r.groups > 1) limit_groups(r, choice, group_values, kept);
  for (int32_t i = 0; i < r.top_k; ++i) take_best(choice, r.experts, taken);

  if (lane != 0) return;
  float sum = 0.0F;
  for (int32_t e = 0; e < r.experts; ++e) sum += taken[e] ? score[e] : 0.0F;
  const float divisor = r.normalize ? sum + 1e-20F : 1.0F;
  int32_t at = 0;
  for (int32_t e = 0; e < r.experts; ++e) {
    if (!taken[e]) continue;
    experts.row(token)[at] = e;
    weights.row(token)[at] = score[e] / divisor * r.scaling_factor;
    ++at;
  }
}

}  // namespace

void route(Queue& queue, const RouteArgs& args) {
  const int32_t count = static_cast<int32_t>(args.logits.dim(1));
  const Routing routing = {.scoring = args.scoring,
                           .group_score = args.group_score,
                           .experts = count,
                           .groups = args.groups,
                           .top_groups = args.top_groups,
                           .top_k = static_cast<int32_t>(args.experts.dim(1)),
                           .normalize = args.normalize,
                           .scaling_factor = args.scaling_factor};
  BATON_CHECK(routing.top_k <= count, routing.top_k, count);
  BATON_CHECK(args.groups >= 1 && count % args.groups == 0 && args.top_groups <= args.groups,
              count,
              args.groups,
              args.top_groups);
  const size_t shared_bytes = static_cast<size_t>(2 * count + args.groups) * sizeof(float) +
                              static_cast<size_t>(count + args.groups) * sizeof(bool);
  launch(queue,
         "route",
         &route_kernel,
         grid(args.logits.dim(0)),
         kWarp,
         shared_bytes,
         routing,
         rows_of(args.logits),
         vector_of(args.bias),
         i32_rows_of(args.experts),
         rows_of(args.weights));
}

}  // namespace baton::cuda
