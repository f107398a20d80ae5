// Softmax of one row in place, in the order of the row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace baton::reference {

// scores: [n], n > 0; NaN stays NaN. A row whose every score is -inf becomes all zero.
inline void softmax(double* scores, int64_t n) {
  const double largest = *std::max_element(scores, scores + n);
  if (largest == -INFINITY) {
    std::fill(scores, scores + n, 0.0);
    return;
  }
  double total = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    scores[i] = std::exp(scores[i] - largest);
    total += scores[i];
  }
  for (int64_t i = 0; i < n; ++i) scores[i] /= total;
}

}  // namespace baton::reference
