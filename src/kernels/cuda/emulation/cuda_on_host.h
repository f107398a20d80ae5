// As much of CUDA C++ on the host as plain kernels need, to check their logic on a machine
// without a GPU: every thread of a block is a fiber, switched at barriers and warp exchanges;
// blocks run one after another. It finds wrong indexing, wrong masks, missing lanes and barriers
// that not all threads reach; it cannot find races or what real hardware refuses.
//
// One grid at a time, from one thread. Test code: nothing outside emulation/ includes it but
// launch/launch.h when that is not compiled by nvcc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
  dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
  unsigned x, y, z;
};
struct uint4 {
  uint32_t x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};

namespace baton::cuda_on_host {

// Of the running fiber.
extern dim3 thread_index, block_index, block_size, grid_size;
extern unsigned char* dynamic_shared;

// Every thread of the block that has not ended; the result is the or of all predicates.
int barrier(int predicate);
// Every lane of the warp gives a value and gets that of lane `source`.
uint32_t exchange(uint32_t value, unsigned source);
uint32_t ballot(bool predicate);

// Aborts when no thread can go on: some of them wait for others that never come.
void run_grid(dim3 grid, unsigned threads, size_t shared_bytes, const std::function<void()>& body);

template <typename T>
T shuffle_xor(T value, int offset) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = exchange(bits, (thread_index.x % 32) ^ static_cast<unsigned>(offset));
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

}  // namespace baton::cuda_on_host

#define threadIdx ::baton::cuda_on_host::thread_index
#define blockIdx ::baton::cuda_on_host::block_index
#define blockDim ::baton::cuda_on_host::block_size
#define gridDim ::baton::cuda_on_host::grid_size
#define __syncthreads() ::baton::cuda_on_host::barrier(0)
#define __syncthreads_or(predicate) ::baton::cuda_on_host::barrier(predicate)
#define __syncwarp() ::baton::cuda_on_host::exchange(0, threadIdx.x % 32)
#define __shfl_xor_sync(mask, value, offset) ::baton::cuda_on_host::shuffle_xor(value, offset)
#define __ballot_sync(mask, predicate) ::baton::cuda_on_host::ballot(predicate)
#define __popc __builtin_popcount

inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline int atomicAdd(int* at, int value) {
  const int before = *at;
  *at += value;
  return before;
}
using std::isinf;
using std::isnan;
using std::max;
using std::min;
