#include "model/nearest_name.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace baton {

int edit_distance(std::string_view a, std::string_view b, int limit) {
  const auto difference = static_cast<int>(a.size()) - static_cast<int>(b.size());
  if (std::abs(difference) >= limit) return limit;
  std::vector<int> previous(b.size() + 1);
  std::vector<int> current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    int best = current[0];
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitute = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({substitute, previous[j] + 1, current[j - 1] + 1});
      best = std::min(best, current[j]);
    }
    if (best >= limit) return limit;
    std::swap(previous, current);
  }
  return std::min(previous[b.size()], limit);
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string nearest;
  int distance = std::max(2, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string& candidate : candidates) {
    // A longer or shorter form of the same name is one step away.
    const bool extends = candidate.starts_with(name) || name.starts_with(candidate);
    const int d = extends && !name.empty() && !candidate.empty()
                      ? std::min(distance, candidate == name ? 0 : 1)
                      : edit_distance(name, candidate, distance);
    if (d < distance) {
      distance = d;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace baton
