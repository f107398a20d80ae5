// Ctrl-C and SIGTERM for long-running verbs: the first asks for an orderly end, the second ends
// the process at once. Made before any other thread starts, so that all of them inherit the
// blocked signals and only this class sees them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace baton {

class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // `first` runs on the signal thread when the first signal comes; here and now if it came.
  void on_first(const std::function<void()>& first);
  bool asked() const { return asked_; }
  // Returns true as soon as a signal came, false after `seconds`.
  bool wait(double seconds);

 private:
  void run();

  std::atomic<bool> asked_ = false;
  std::atomic<bool> closing_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> first_;
  std::thread thread_;
};

}  // namespace baton
