// How ops launch kernels: the stream of the queue, grids from element counts, and the check
// after every launch. Included by .cu files alone. The same sources also compile as plain C++
// (emulation/): then a launch runs the grid on the host, at once.
#pragma once

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include "device/cuda/cuda_queue.h"
#else
#include "device/device.h"
#include "kernels/cuda/emulation/cuda_on_host.h"
#endif

#include <algorithm>

#include "base/check.h"
#include "device/tensor.h"

namespace baton::cuda {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
// gridDim.y and gridDim.z end here; what can be larger goes into x.
constexpr int64_t kMaxGridY = 65535;

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

inline dim3 grid(int64_t x, int64_t y = 1, int64_t z = 1) {
  BATON_CHECK(x <= 0x7fffffff && y <= kMaxGridY && z <= kMaxGridY, x, y, z);
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

// One thread per element of a flat range.
inline dim3 grid_of(int64_t elements) {
  return grid(ceil_div(elements, kThreads));
}

#if defined(__CUDACC__)

// The shared memory that the launch asked for; every call gives the same address.
template <typename T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

template <typename... Params>
void enqueue(Queue& queue,
             const char* op,
             void (*kernel)(Params...),
             dim3 blocks,
             unsigned threads,
             size_t shared_bytes,
             Params... params) {
  CudaQueue& cuda = cuda_queue(queue);
  const cudaStream_t stream = cuda.stream();
  // A block gets 48 KiB without asking, its static shared memory included.
  constexpr size_t kWithoutAsking = 32 << 10;
  if (shared_bytes > kWithoutAsking) {
    cuda.note(
        cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        op);
  }
  kernel<<<blocks, threads, shared_bytes, stream>>>(params...);
  cuda.note_launch(op);
}

#else

template <typename T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(cuda_on_host::dynamic_shared);
}

template <typename... Params>
void enqueue(Queue&,
             const char*,
             void (*kernel)(Params...),
             dim3 blocks,
             unsigned threads,
             size_t shared_bytes,
             Params... params) {
  cuda_on_host::run_grid(blocks, threads, shared_bytes, [&] { kernel(params...); });
}

#endif

// Enqueues kernel<<<blocks, threads, shared_bytes>>>(args...) on the queue. An empty grid is no
// work, not an error.
template <typename... Params, typename... Args>
void launch(Queue& queue,
            const char* op,
            void (*kernel)(Params...),
            dim3 blocks,
            unsigned threads,
            size_t shared_bytes,
            const Args&... args) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  enqueue<Params...>(
      queue, op, kernel, blocks, threads, shared_bytes, static_cast<Params>(args)...);
}

}  // namespace baton::cuda
