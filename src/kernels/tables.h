// The kernel tables Baton has. Explicit: a new backend is a line in table_for().
#pragma once

#include "kernels/kernels.h"

namespace baton {

const KernelTable& reference_kernels();  // plain loops; the oracle and the fallback
const KernelTable& cpu_kernels();        // the best table for this processor, chosen once
const KernelTable& planning_kernels();   // does nothing: for sizing a forward pass
const KernelTable* cuda_kernels();       // null when built without CUDA

// The table that runs on a device. `name`: "auto", or a table's name to force it
// ("reference"); an unknown or unfitting name lists what there is.
Result<const KernelTable*> table_for(const Device& device, std::string_view name);

}  // namespace baton
