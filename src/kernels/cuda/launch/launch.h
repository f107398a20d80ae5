// How ops launch kernels: the stream of the queue, grids from element counts, and the check
// after every launch. Included by .cu files alone.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "base/check.h"
#include "device/cuda/cuda_queue.h"
#include "device/tensor.h"

namespace baton::cuda {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
// gridDim.y and gridDim.z end here; rows beyond it would need a loop.
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

// Enqueues kernel<<<blocks, threads, shared>>>(args...) on the queue's stream. An empty grid
// is no work, not an error.
template <typename... Params, typename... Args>
void launch(Queue& queue,
            const char* op,
            void (*kernel)(Params...),
            dim3 blocks,
            unsigned threads,
            size_t shared_bytes,
            Args... args) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  CudaQueue& cuda = cuda_queue(queue);
  const cudaStream_t stream = cuda.stream();
  constexpr size_t kDefaultShared = 48 << 10;  // above it a kernel must ask
  if (shared_bytes > kDefaultShared) {
    cuda.note(
        cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        op);
  }
  kernel<<<blocks, threads, shared_bytes, stream>>>(static_cast<Params>(args)...);
  cuda.note_launch(op);
}

}  // namespace baton::cuda
