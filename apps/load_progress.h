// Shows how far loading is: a bar with GB/s and time left on a terminal, a plain line now and
// then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>

namespace baton {

class LoadProgress {
 public:
  LoadProgress();
  void update(int64_t done_bytes, int64_t total_bytes);
  void finish();  // ends the bar's line

 private:
  using Clock = std::chrono::steady_clock;
  const bool terminal_;
  const Clock::time_point start_;
  Clock::time_point shown_;
  bool open_ = false;
};

}  // namespace baton
