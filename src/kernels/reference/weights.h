// Reading stored weights as f32, one row at a time.
#pragma once

#include "kernels/kernels.h"

namespace baton::reference {

// Row `row` of the matrix; out: [weight.columns].
void expand_row(const WeightView& weight, int64_t row, float* out);

// A contiguous run of f32, bf16 or f16 values; out: [count].
void expand_values(const void* data, DType dtype, int64_t first, int64_t count, float* out);

}  // namespace baton::reference
