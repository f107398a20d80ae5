#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace baton {
namespace {

TEST(ThreadPool, VisitsEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      pool.parallel_for(count, 3, [&](int64_t begin, int64_t end, int worker) {
        ASSERT_LT(worker, threads);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ThreadPool, RunsManyShortLoopsInARow) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 2000; ++round) {
    pool.parallel_for(8, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  }
  EXPECT_EQ(sum, 16000);
}

// Loops of different sizes and bodies follow each other at once: a worker that comes late from one
// must not run a piece of it as part of the next.
TEST(ThreadPool, KeepsLoopsApart) {
  ThreadPool pool(4);
  for (int64_t round = 0; round < 3000; ++round) {
    const int64_t count = 1 + round % 17;
    std::vector<int64_t> values(static_cast<size_t>(count), -1);
    pool.parallel_for(count, 1 + round % 3, [&, round](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] = round + i;
    });
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], round + i);
  }
}

TEST(ThreadPool, CutsALoopOfMoreIndicesThanPieces) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  pool.parallel_for(3'000'000, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  EXPECT_EQ(sum, 3'000'000);
}

}  // namespace
}  // namespace baton
