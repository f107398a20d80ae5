#include "load_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/log.h"

namespace baton {

LoadProgress::LoadProgress()
    : terminal_(isatty(STDERR_FILENO) != 0), start_(Clock::now()), shown_(start_) {}

void LoadProgress::update(int64_t done_bytes, int64_t total_bytes) {
  const Clock::time_point now = Clock::now();
  const double pause = terminal_ ? 0.1 : 5.0;
  const bool last = done_bytes >= total_bytes;
  if (!last && std::chrono::duration<double>(now - shown_).count() < pause) return;
  shown_ = now;
  const double seconds = std::max(1e-3, std::chrono::duration<double>(now - start_).count());
  const double done = static_cast<double>(done_bytes);
  const double total = static_cast<double>(std::max<int64_t>(total_bytes, 1));
  const double rate = done / seconds;
  char text[160];
  if (terminal_) {
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(kWidth * done / total);
    std::snprintf(text,
                  sizeof text,
                  "\rloading [%s%s] %.2f of %.2f GB  %.2f GB/s  %.0f s left ",
                  std::string(static_cast<size_t>(filled), '#').c_str(),
                  std::string(static_cast<size_t>(kWidth - filled), '.').c_str(),
                  done / 1e9,
                  total / 1e9,
                  rate / 1e9,
                  rate > 0 ? (total - done) / rate : 0.0);
    std::fputs(text, stderr);
    open_ = true;
    if (last) finish();
    return;
  }
  std::snprintf(text,
                sizeof text,
                "loading: %.2f of %.2f GB (%.0f %%), %.2f GB/s",
                done / 1e9,
                total / 1e9,
                100.0 * done / total,
                rate / 1e9);
  log_info(text);
}

void LoadProgress::finish() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace baton
