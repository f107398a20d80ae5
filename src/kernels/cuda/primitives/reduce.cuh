// Sums and maxima over a warp or a block of kThreads, in a fixed order: the same inputs give
// the same bits in every launch. Every thread gets the result.
#pragma once

#include "kernels/cuda/launch/launch.h"
#include "kernels/score_order.h"

namespace baton::cuda {

constexpr unsigned kAllLanes = 0xffffffffU;

__device__ inline float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, offset);
  }
  return value;
}

__device__ inline float warp_max(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

// All kThreads threads of the block must call it.
__device__ inline float block_sum(float value) {
  __shared__ float partial[kWarps];
  value = warp_sum(value);
  __syncthreads();  // readers of an earlier call are done
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  float sum = 0.0F;
  for (int w = 0; w < kWarps; ++w) sum += partial[w];
  return sum;
}

// A candidate of an arg-max, in the order of score_key(); the lower index wins ties, and index
// -1 (no candidate) loses.
struct Best {
  float value;
  int32_t index;
};

__device__ inline Best better(Best a, Best b) {
  if (a.index < 0) return b;
  if (b.index < 0) return a;
  const uint32_t key_a = score_key(a.value);
  const uint32_t key_b = score_key(b.value);
  if (key_a != key_b) return key_a > key_b ? a : b;
  return a.index < b.index ? a : b;
}

__device__ inline Best warp_best(Best best) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const Best other = {__shfl_xor_sync(kAllLanes, best.value, offset),
                        __shfl_xor_sync(kAllLanes, best.index, offset)};
    best = better(best, other);
  }
  return best;
}

}  // namespace baton::cuda
