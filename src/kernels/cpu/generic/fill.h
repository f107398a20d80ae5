// The microkernels of one instruction set.
#pragma once

#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/elementwise.h"
#include "kernels/cpu/generic/index.h"
#include "kernels/cpu/generic/matmul.h"

namespace baton::cpu {

template <typename S>
constexpr Microkernels microkernels_of() {
  return {.direct = &direct<S>,
          .expand = &expand<S>,
          .dots = &dots<S>,
          .softmax_tile = &softmax_tile<S>,
          .accumulate = &accumulate<S>,
          .index_tile = &index_tile<S>,
          .transpose_64 = &transpose_64<S>,
          .widen = &widen<S>,
          .rms_norm = &rms_norm<S>,
          .silu_mul = &silu_mul<S>};
}

}  // namespace baton::cpu
