#include "kernels/reference/weights.h"

#include <algorithm>

namespace baton::reference {
namespace {

// Block scales: f32 [ceil(rows / block_rows), ceil(columns / block_columns)].
void expand_fp8_row(const WeightView& weight, int64_t row, float* out) {
  BATON_CHECK(weight.block_rows > 0 && weight.block_columns > 0);
  const auto* values = static_cast<const uint8_t*>(weight.data) + row * weight.columns;
  const int64_t blocks = (weight.columns + weight.block_columns - 1) / weight.block_columns;
  const float* scales = static_cast<const float*>(weight.scales) + row / weight.block_rows * blocks;
  for (int64_t i = 0; i < weight.columns; ++i) {
    out[i] = e4m3_to_float(values[i]) * scales[i / weight.block_columns];
  }
}

void expand_nvfp4_row(const WeightView& weight, int64_t row, float* out) {
  BATON_CHECK(weight.columns % kNvfp4ScaleGroup == 0, weight.columns);
  const auto* pairs = static_cast<const uint8_t*>(weight.data) + row * (weight.columns / 2);
  const auto* scales =
      static_cast<const uint8_t*>(weight.scales) + row * (weight.columns / kNvfp4ScaleGroup);
  for (int64_t i = 0; i < weight.columns; ++i) {
    const uint32_t pair = pairs[i / 2];
    const float code = e2m1_to_float((i & 1) != 0 ? pair >> 4 : pair & 15U);
    out[i] = code * e4m3_to_float(scales[i / kNvfp4ScaleGroup]) * weight.global_scale;
  }
}

}  // namespace

void expand_values(const void* data, DType dtype, int64_t first, int64_t count, float* out) {
  switch (dtype) {
    case DType::kF32: {
      const float* values = static_cast<const float*>(data) + first;
      std::copy(values, values + count, out);
      return;
    }
    case DType::kBF16: {
      const auto* values = static_cast<const uint16_t*>(data) + first;
      for (int64_t i = 0; i < count; ++i) out[i] = bf16_to_float(values[i]);
      return;
    }
    case DType::kF16: {
      const auto* values = static_cast<const uint16_t*>(data) + first;
      for (int64_t i = 0; i < count; ++i) out[i] = f16_to_float(values[i]);
      return;
    }
    default:
      BATON_CHECK(false, "expected f32, bf16 or f16, got", dtype_name(dtype));
  }
}

void expand_row(const WeightView& weight, int64_t row, float* out) {
  BATON_CHECK(row >= 0 && row < weight.rows, row, weight.rows);
  const int64_t first = row * weight.columns;
  switch (weight.form) {
    case WeightForm::kF32:
      return expand_values(weight.data, DType::kF32, first, weight.columns, out);
    case WeightForm::kBF16:
      return expand_values(weight.data, DType::kBF16, first, weight.columns, out);
    case WeightForm::kF16:
      return expand_values(weight.data, DType::kF16, first, weight.columns, out);
    case WeightForm::kFp8Block:
      return expand_fp8_row(weight, row, out);
    case WeightForm::kNvfp4:
      return expand_nvfp4_row(weight, row, out);
  }
}

}  // namespace baton::reference
