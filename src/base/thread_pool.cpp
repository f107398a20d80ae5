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
  // A loop is published as a ticket: its number above, the pieces nobody has taken yet below.
  // Taking a piece is one exchange that fails once the loop is another, so a worker that comes
  // late touches nothing.
  static constexpr int kPieceBits = 20;
  static constexpr uint64_t kPieceMask = (uint64_t{1} << kPieceBits) - 1;

  std::vector<std::thread> workers;
  std::atomic<uint64_t> ticket{0};
  std::atomic<int64_t> unfinished{0};  // pieces of the current loop
  std::atomic<bool> stopping{false};

  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<int> sleepers{0};

  // The current loop: written by the caller before `ticket`, read by who holds a piece of it.
  const void* body = nullptr;
  Call call = nullptr;
  int64_t count = 0;
  int64_t grain = 1;
  int64_t pieces = 0;

  void work(int worker) {
    uint64_t seen = ticket.load(std::memory_order_acquire);
    while ((seen & kPieceMask) != 0) {
      if (!ticket.compare_exchange_weak(
              seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        continue;
      }
      const int64_t begin = (pieces - static_cast<int64_t>(seen & kPieceMask)) * grain;
      call(body, begin, std::min(begin + grain, count), worker);
      unfinished.fetch_sub(1, std::memory_order_release);
      seen = ticket.load(std::memory_order_acquire);
    }
  }

  bool idle() const {
    return (ticket.load(std::memory_order_seq_cst) & kPieceMask) == 0 &&
           !stopping.load(std::memory_order_seq_cst);
  }

  void wait_for_work() {
    for (int i = 0; i < kSpins; ++i) {
      if (!idle()) return;
      pause_cpu();
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    wake.wait(lock, [&] { return !idle(); });
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }

  void run_worker(int worker) {
    while (true) {
      wait_for_work();
      if (stopping.load(std::memory_order_acquire)) return;
      work(worker);
    }
  }

  // After a change that idle() sees. Either the sleeper counts itself first and is woken here, or
  // it looks at the change after it counted itself.
  void wake_sleepers() {
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    { const std::scoped_lock lock(mutex); }
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  BATON_CHECK(threads >= 1, threads);
  for (int worker = 1; worker < threads; ++worker) {
    state_->workers.emplace_back([state = state_.get(), worker] { state->run_worker(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_seq_cst);
  state_->wake_sleepers();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::run(int64_t count, int64_t grain, const void* body, Call call) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (state_->workers.empty() || count <= grain) return call(body, 0, count, 0);
  constexpr auto kMostPieces = static_cast<int64_t>(State::kPieceMask);
  grain = std::max(grain, (count + kMostPieces - 1) / kMostPieces);
  State& state = *state_;
  state.body = body;
  state.call = call;
  state.count = count;
  state.grain = grain;
  state.pieces = (count + grain - 1) / grain;
  state.unfinished.store(state.pieces, std::memory_order_relaxed);
  const uint64_t last = state.ticket.load(std::memory_order_relaxed) >> State::kPieceBits;
  state.ticket.store(((last + 1) << State::kPieceBits) | static_cast<uint64_t>(state.pieces),
                     std::memory_order_seq_cst);
  state.wake_sleepers();
  state.work(0);
  // A worker that holds a piece may have lost its core to another program: let it have this one.
  for (int64_t i = 0; state.unfinished.load(std::memory_order_acquire) > 0; ++i) {
    i < kSpins ? pause_cpu() : std::this_thread::yield();
  }
}

}  // namespace baton
