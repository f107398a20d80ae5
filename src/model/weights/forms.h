// Stored types and the forms that weights have in memory. Internal to model/weights.
#pragma once

#include <cstdint>
#include <vector>

#include "device/tensor.h"
#include "kernels/kernels.h"
#include "model/weights/checkpoint.h"
#include "model/weights/weight_reader.h"

namespace baton {

// F32, BF16 or F16: what an unquantised weight may be stored as.
bool is_dense(DType dtype);
WeightForm form_of(DType dense);
DType dtype_of(WeightForm dense);
// The form that --dtype asks for.
WeightForm wanted_form(WeightForm stored, WeightDtype dtype);

// values[0, count) as `dtype` (f32, bf16 or f16) at `to`, which needs no alignment.
void store_values(const float* values, int64_t count, DType dtype, uint8_t* to);

// A mapped tensor as values that may be read as their type: the mapping itself, or a copy where
// its address is not aligned.
class AlignedValues {
 public:
  explicit AlignedValues(const StoredTensor& stored);
  AlignedValues(const AlignedValues&) = delete;
  AlignedValues& operator=(const AlignedValues&) = delete;
  const void* data() const { return data_; }

 private:
  const void* data_;
  std::vector<uint64_t> copy_;
};

}  // namespace baton
