// The one reduction of the reference: eight interleaved partial sums in double, added up in
// order. Its order depends on n alone.
#pragma once

#include <cstdint>

namespace baton::reference {

// a, b: [n]
inline double dot(const float* a, const float* b, int64_t n) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t j = 0; j < 8; ++j) {
      sums[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
    }
  }
  for (int64_t j = 0; i < n; ++i, ++j) {
    sums[j] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace baton::reference
