#include "kernels/cpu/avx512_vbmi/simd.h"
#include "kernels/cpu/generic/fill.h"

namespace baton::cpu {

const Microkernels& avx512_vbmi_microkernels() {
  static constexpr Microkernels kKernels = microkernels_of<Avx512Vbmi>();
  return kKernels;
}

}  // namespace baton::cpu
