#include "kernels/cpu/avx512/simd.h"
#include "kernels/cpu/generic/fill.h"

namespace baton::cpu {

const Microkernels& avx512_microkernels() {
  static constexpr Microkernels kKernels = microkernels_of<Avx512>();
  return kKernels;
}

}  // namespace baton::cpu
