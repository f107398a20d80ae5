#include "server/worker_pool.h"

#include <exception>
#include <string>
#include <utility>

#include "base/log.h"

namespace baton {

WorkerPool::WorkerPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() {
  close();
}

void WorkerPool::close() {
  std::deque<std::function<void()>> dropped;
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    dropped.swap(tasks_);
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::post(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    if (closing_) return;
    tasks_.push_back(std::move(task));
  }
  ready_.notify_one();
}

size_t WorkerPool::queued() const {
  const std::scoped_lock lock(mutex_);
  return tasks_.size();
}

void WorkerPool::run() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    try {
      task();
    } catch (const std::exception& e) {
      log_error(std::string("worker: ") + e.what());
    }
  }
}

}  // namespace baton
