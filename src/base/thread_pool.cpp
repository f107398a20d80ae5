#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace baton {
namespace {

// About 20 us of polling: longer than the gap between two kernels of a decode step, much
// shorter than anything a person or a scheduler tick would notice.
constexpr int kSpins = 4000;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> generation{0};
  std::atomic<bool> stopping{false};

  // The current loop; written by the caller before `generation` moves.
  const std::function<void(int64_t, int64_t, int)>* body = nullptr;
  int64_t count = 0;
  int64_t grain = 1;
  std::atomic<int64_t> next{0};
  std::atomic<int> active{0};

  void work(int worker) {
    while (true) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      (*body)(begin, std::min(begin + grain, count), worker);
    }
  }

  void wait_for(uint64_t seen) {
    for (int i = 0; i < kSpins; ++i) {
      if (generation.load(std::memory_order_acquire) != seen) return;
      pause_cpu();
    }
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return generation.load(std::memory_order_acquire) != seen; });
  }

  void run_worker(int worker) {
    uint64_t seen = 0;
    while (true) {
      wait_for(seen);
      ++seen;
      if (stopping.load(std::memory_order_acquire)) return;
      work(worker);
      active.fetch_sub(1, std::memory_order_release);
    }
  }

  void publish() {
    {
      const std::scoped_lock lock(mutex);
      generation.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  BATON_CHECK(threads >= 0, threads);
  if (threads == 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int worker = 1; worker < threads; ++worker) {
    state_->workers.emplace_back([state = state_.get(), worker] { state->run_worker(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_release);
  state_->publish();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::parallel_for(int64_t count,
                              int64_t grain,
                              const std::function<void(int64_t, int64_t, int)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (state_->workers.empty() || count <= grain) {
    body(0, count, 0);
    return;
  }
  State& state = *state_;
  state.body = &body;
  state.count = count;
  state.grain = grain;
  state.next.store(0, std::memory_order_relaxed);
  state.active.store(static_cast<int>(state.workers.size()), std::memory_order_relaxed);
  state.publish();
  state.work(0);
  while (state.active.load(std::memory_order_acquire) > 0) pause_cpu();
}

}  // namespace baton
