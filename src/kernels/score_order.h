// The order in which scores compete, as an unsigned key: larger key, better score. -0 and +0
// are equal (relu makes both) and NaN loses to everything, so that every comparison is total.
#pragma once

#include "base/numeric.h"

namespace baton {

BATON_HOST_DEVICE inline uint32_t score_key(float score) {
  const uint32_t bits = float_bits(score);
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0;
  if (magnitude == 0) return 0x80000000U;
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace baton
