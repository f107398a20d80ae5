#include "kernels/tables.h"

namespace baton {

const KernelTable& cpu_kernels() {
  return reference_kernels();
}

}  // namespace baton
