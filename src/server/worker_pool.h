// Threads for work that takes long for one request: parsing megabytes of JSON, rendering a
// template, tokenising. HTTP threads hand it over, so that probes and other streams go on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace baton {

class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();  // as close()
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Tasks must not throw; what escapes one is logged and ends that task only.
  void post(std::function<void()> task);
  size_t queued() const;
  // Drops what is queued and joins the threads. Idempotent.
  void close();

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace baton
