// The CUDA side of a Queue: a non-default stream of one device, with the first error of an
// asynchronous call kept until synchronize() reports it. Used by the engine thread, and by
// the CUDA kernel table, which needs the stream. Nothing above the two device seams
// includes this.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/thread_pool.h"
#include "device/device.h"

namespace baton {

// "cuda: out of memory (cudaErrorMemoryAllocation) in cudaMalloc".
std::string describe_cuda_error(cudaError_t error, std::string_view call);

class CudaQueue final : public Queue {
 public:
  // Takes over `stream`, which belongs to device `index`.
  CudaQueue(int index, cudaStream_t stream, int host_threads)
      : index_(index), stream_(stream), host_pool_(host_threads) {}
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  // The stream, after making its device the current one of the calling thread.
  cudaStream_t stream();
  // Keeps the first failure for synchronize(). `call` names what failed.
  void note(cudaError_t error, std::string_view call);
  // To be called after every kernel launch: keeps a refused launch (bad configuration, no
  // image for this architecture), and in debug builds outside a capture waits for the kernel,
  // so that a fault is blamed on the op that caused it.
  void note_launch(std::string_view op);

  void copy(void* to, const void* from, size_t bytes) override;
  void fill(void* to, uint8_t value, size_t bytes) override;
  Status synchronize() override;
  ThreadPool* host_pool() override { return &host_pool_; }
  std::unique_ptr<Event> record() override;
  bool supports_graphs() const override { return true; }
  Status begin_capture() override;
  Result<std::unique_ptr<Graph>> end_capture() override;
  void replay(const Graph& graph) override;

 private:
  Status take_error();

  int index_;
  cudaStream_t stream_;
  ThreadPool host_pool_;  // asleep but for the host's share of a step
  bool capturing_ = false;
  std::string error_;  // first failure since the last synchronize(); empty: none
};

// CUDA kernels get a Queue& and need its stream. The table and the queue are chosen together,
// so a mismatch is a broken invariant.
CudaQueue& cuda_queue(Queue& queue);

}  // namespace baton
