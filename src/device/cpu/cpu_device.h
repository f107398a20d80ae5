// The CPU as a device: memory is host memory, work runs at once on a thread pool that each
// queue owns.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "device/cpu/call_memory.h"
#include "device/device.h"

namespace baton {

class CpuQueue final : public Queue {
 public:
  explicit CpuQueue(int threads) : threads_(threads) {}

  ThreadPool& threads() { return threads_; }
  CallMemory& call_memory() { return call_memory_; }

  void copy(void* to, const void* from, size_t bytes) override;
  void fill(void* to, uint8_t value, size_t bytes) override;
  Status synchronize() override { return {}; }
  ThreadPool* host_pool() override { return &threads_; }
  std::unique_ptr<Event> record() override;
  bool supports_graphs() const override { return false; }
  Status begin_capture() override;
  Result<std::unique_ptr<Graph>> end_capture() override;
  void replay(const Graph& graph) override;

 private:
  ThreadPool threads_;
  CallMemory call_memory_;
};

// CPU kernels get a Queue& and need its threads. The table and the queue are chosen together,
// so a mismatch is a broken invariant.
CpuQueue& cpu_queue(Queue& queue);

// 0 threads: as many as can run at the same time (host_limits.h).
Result<std::unique_ptr<Device>> open_cpu_device(int threads);

}  // namespace baton
