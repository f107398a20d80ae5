#include "text/stop_strings.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace baton {

StopStringMatcher::StopStringMatcher(std::vector<std::string> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop) {}

std::string StopStringMatcher::push(std::string_view text) {
  if (found_) return {};
  const size_t scanned = held_.size();
  held_.append(text);
  if (const std::optional<Hit> hit = first_hit(scanned)) {
    found_ = hit->index;
    std::string shown = held_.substr(0, include_stop_ ? hit->end : hit->begin);
    held_.clear();
    return shown;
  }
  const size_t complete = held_.size() - possible_prefix();
  std::string shown = held_.substr(0, complete);
  held_.erase(0, complete);
  return shown;
}

std::string StopStringMatcher::finish() {
  std::string rest = std::move(held_);
  held_.clear();
  return rest;
}

// No stop string ends within the first `scanned` bytes, or it would have been found before.
std::optional<StopStringMatcher::Hit> StopStringMatcher::first_hit(size_t scanned) const {
  std::optional<Hit> best;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const std::string& stop = stops_[i];
    if (stop.empty()) continue;
    const size_t from = scanned >= stop.size() ? scanned - stop.size() + 1 : 0;
    const size_t begin = held_.find(stop, from);
    if (begin == std::string::npos) continue;
    const Hit hit{begin + stop.size(), begin, i};
    if (!best || std::tie(hit.end, hit.begin) < std::tie(best->end, best->begin)) best = hit;
  }
  return best;
}

// Bytes at the end of held_ that some stop string begins with.
size_t StopStringMatcher::possible_prefix() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    const size_t most = stop.empty() ? 0 : std::min(stop.size() - 1, held_.size());
    for (size_t length = most; length > longest; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) {
        longest = length;
        break;
      }
    }
  }
  return longest;
}

}  // namespace baton
