// The first of the two device seams: memory, queues, events and graph capture. Above it (and
// KernelTable, the second) nothing knows which device it runs on.
//
// A Device outlives everything made from it. A Queue belongs to one thread (the engine
// thread); work enqueued on it runs in order, at once or later: only synchronize() or an
// Event says when it is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace baton {

class ThreadPool;

// Owns a piece of device or host memory; frees itself. Move-only.
class Buffer {
 public:
  using Release = std::function<void(void*)>;

  Buffer() = default;
  Buffer(void* data, size_t bytes, Release release);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  std::byte* bytes() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
  Release release_;
};

struct DeviceMemory {
  size_t total_bytes = 0;
  size_t available_bytes = 0;
};

// A point in a queue's order.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;
  virtual Status wait() = 0;  // blocks the calling thread
};

// A captured run of work with all its addresses and shapes; replayed as one submission.
class Graph {
 public:
  virtual ~Graph() = default;
};

class Queue {
 public:
  virtual ~Queue() = default;

  // Any direction. Host memory should come from Device::allocate_host, so that the copy can
  // overlap; the host side must stay valid until the copy is known to be done.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void fill(void* to, uint8_t value, size_t bytes) = 0;

  // Waits for everything enqueued; reports any device error since the last call.
  virtual Status synchronize() = 0;
  virtual std::unique_ptr<Event> record() = 0;

  // Between begin_capture and end_capture work is recorded, not run. A device without graphs
  // says so, and callers enqueue the work each time instead.
  virtual bool supports_graphs() const = 0;
  virtual Status begin_capture() = 0;
  virtual Result<std::unique_ptr<Graph>> end_capture() = 0;
  virtual void replay(const Graph& graph) = 0;

  // Threads that host work on what the queue computed may share between synchronize() and the next
  // kernel; null: the caller's alone.
  virtual ThreadPool* host_pool() { return nullptr; }

  // A kernel table that hands an op (or a shape) to the reference composition says so here:
  // the first time per op is logged, all are counted.
  void count_fallback(std::string_view op);
  const std::map<std::string, int64_t, std::less<>>& fallbacks() const { return fallbacks_; }

 private:
  std::map<std::string, int64_t, std::less<>> fallbacks_;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;    // "cpu", "cuda:0"
  virtual std::string description() const = 0;  // "AMD EPYC, 2 threads", "NVIDIA H200"
  virtual DeviceMemory memory() const = 0;
  virtual bool host_addressable() const = 0;  // mapped files can be used in place

  // Contents are undefined. Aligned to at least 4,096 bytes.
  virtual Result<Buffer> allocate(size_t bytes) = 0;
  // Host memory that the device can copy from and to without staging.
  virtual Result<Buffer> allocate_host(size_t bytes) = 0;
  virtual Result<std::unique_ptr<Queue>> create_queue() = 0;
};

// "cpu" or "cuda" or "cuda:N". `cpu_threads` 0: as many as the process may run at once.
Result<std::unique_ptr<Device>> open_device(std::string_view name, int cpu_threads);

}  // namespace baton
