#include "kernels/cpu/avx2/simd.h"
#include "kernels/cpu/generic/fill.h"

namespace baton::cpu {

const Microkernels& avx2_microkernels() {
  static constexpr Microkernels kKernels = microkernels_of<Avx2>();
  return kKernels;
}

}  // namespace baton::cpu
