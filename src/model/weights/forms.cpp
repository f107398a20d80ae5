#include "model/weights/forms.h"

#include <cstring>

#include "base/numeric.h"

namespace baton {

bool is_dense(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

WeightForm form_of(DType dtype) {
  if (dtype == DType::kBF16) return WeightForm::kBF16;
  return dtype == DType::kF16 ? WeightForm::kF16 : WeightForm::kF32;
}

DType dtype_of(WeightForm form) {
  if (form == WeightForm::kBF16) return DType::kBF16;
  return form == WeightForm::kF16 ? DType::kF16 : DType::kF32;
}

WeightForm wanted_form(WeightForm stored, WeightDtype dtype) {
  if (dtype == WeightDtype::kF32) return WeightForm::kF32;
  return dtype == WeightDtype::kBF16 ? WeightForm::kBF16 : stored;
}

void store_values(const float* values, int64_t count, DType dtype, uint8_t* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, values, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits =
        dtype == DType::kBF16 ? float_to_bf16(values[i]) : float_to_f16(values[i]);
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
}

AlignedValues::AlignedValues(const StoredTensor& stored) : data_(stored.data) {
  const auto width = static_cast<uintptr_t>(dtype_bytes(stored.dtype));
  if (reinterpret_cast<uintptr_t>(stored.data) % width == 0) return;
  copy_.resize(static_cast<size_t>(stored.bytes + 7) / 8);
  std::memcpy(copy_.data(), stored.data, static_cast<size_t>(stored.bytes));
  data_ = copy_.data();
}

std::string_view weight_form_name(WeightForm form) {
  switch (form) {
    case WeightForm::kF32:
      return "f32";
    case WeightForm::kBF16:
      return "bf16";
    case WeightForm::kF16:
      return "f16";
    case WeightForm::kFp8Block:
      return "fp8";
    case WeightForm::kNvfp4:
      return "nvfp4";
  }
  return "?";
}

}  // namespace baton
