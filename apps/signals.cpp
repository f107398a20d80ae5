#include "signals.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>

namespace baton {
namespace {

// Wrappers (timeout, make, a terminal) signal the process and its group: that is one signal.
constexpr std::chrono::milliseconds kOneSignal(200);

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);  // wakes our own thread when it is over
  return set;
}

}  // namespace

Signals::Signals() {
  signal(SIGPIPE, SIG_IGN);
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { run(); });
}

Signals::~Signals() {
  closing_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void Signals::on_first(const std::function<void()>& first) {
  bool came_before;
  {
    const std::scoped_lock lock(mutex_);
    first_ = first;
    came_before = asked_;
  }
  if (came_before && first) first();
}

bool Signals::wait(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(
      lock, std::chrono::duration<double>(seconds), [this] { return asked_.load(); });
}

void Signals::run() {
  const sigset_t set = watched();
  std::chrono::steady_clock::time_point first_at;
  while (true) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    if (number == SIGUSR1) {
      if (closing_) return;
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    if (asked_) {
      if (now - first_at < kOneSignal) continue;
      std::_Exit(1);
    }
    first_at = now;
    std::function<void()> first;
    {
      const std::scoped_lock lock(mutex_);
      asked_ = true;
      first = first_;
    }
    changed_.notify_all();
    if (first) first();
  }
}

}  // namespace baton
