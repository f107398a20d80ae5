#include "kernels/cpu/levels.h"
#include "kernels/tables.h"

namespace baton {

const std::vector<const KernelTable*>& cpu_levels() {
  static const std::vector<const KernelTable*> kLevels = {&reference_kernels()};
  return kLevels;
}

const KernelTable& cpu_kernels() {
  return *cpu_levels().front();
}

}  // namespace baton
