// The CPU tables this processor can run, best first, so that tests and --kernels can force a
// level. Detection happens once, here and nowhere else.
#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace baton {

const std::vector<const KernelTable*>& cpu_levels();

}  // namespace baton
