#include "kernels/cuda/ops.h"
#include "kernels/tables.h"

namespace baton {

const KernelTable* cuda_kernels() {
  return &cuda::table();
}

}  // namespace baton
