// A fixed set of worker threads that share loops. One pool belongs to one device queue;
// parallel_for is called from one thread at a time (the engine thread) and returns when the
// whole range is done. Workers spin briefly, then sleep, so that back-to-back kernels of one
// step do not pay a wake-up each. The caller waits for pieces that a worker has taken, never for
// a worker that has not arrived: on a busy machine it does the loop alone. Nothing is allocated.
#pragma once

#include <cstdint>
#include <memory>

namespace baton {

class ThreadPool {
 public:
  // `threads` counts the calling thread too; 1 means no workers.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(begin, end, worker) over [0, count) in pieces of at least `grain`, taken by
  // whichever thread is free; worker is in [0, threads()). What a piece computes must not
  // depend on how the range was cut: results are then the same for any number of threads.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    run(count, grain, &body, [](const void* self, int64_t begin, int64_t end, int worker) {
      (*static_cast<const Body*>(self))(begin, end, worker);
    });
  }

 private:
  using Call = void (*)(const void* body, int64_t begin, int64_t end, int worker);
  struct State;
  void run(int64_t count, int64_t grain, const void* body, Call call);

  std::unique_ptr<State> state_;
};

}  // namespace baton
