// FP8 weights (e4m3) with a scale per block, per row or per matrix. DeepSeek, GLM and Qwen write
// `weight_scale_inv` (a multiplier despite its name), compressed-tensors `weight_scale`.
#include "model/quantization/scheme.h"
#include "model/weights/safetensors.h"

namespace baton {
namespace {

bool is_scale_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 ||
         dtype == DType::kF8E8M0;
}

int64_t blocks(int64_t size, int64_t block) {
  return (size + block - 1) / block;
}

std::string located(const StoredTensor& tensor) {
  return "tensor '" + tensor.name + "' (" + tensor.file + ")";
}

}  // namespace

FoundMatrix find_block_fp8(const MatrixRequest& request) {
  const std::string name = std::string(request.module) + ".weight";
  const StoredTensor* values = request.checkpoint.find(name);
  if (values == nullptr || values->dtype != DType::kF8E4M3) return std::optional<QuantizedMatrix>();
  const StoredTensor* scales = request.checkpoint.find(name + "_scale_inv");
  if (scales == nullptr) scales = request.checkpoint.find(name + "_scale");
  if (scales == nullptr) {
    return invalid_argument(located(*values) + ": is F8_E4M3, but neither '" + name +
                            "_scale_inv' nor '" + name + "_scale' exists");
  }
  if (!is_scale_dtype(scales->dtype)) {
    return invalid_argument(located(*scales) + ": expected F32, BF16, F16 or F8_E8M0 scales, got " +
                            describe_stored(scales->dtype, scales->shape));
  }
  QuantizedMatrix matrix{
      .form = WeightForm::kFp8Block, .values = values, .scales = scales, .parts = {values, scales}};
  const std::vector<int64_t>& shape = scales->shape;
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  const bool per_row = count == request.rows && request.rows > 1 &&
                       (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1));
  int64_t block_rows = request.declared.block_rows;
  int64_t block_columns = request.declared.block_columns;
  const bool is_grid = shape.size() == 2 && block_rows > 0 &&
                       shape[0] == blocks(request.rows, block_rows) &&
                       shape[1] == blocks(request.columns, block_columns);
  if (!is_grid) {
    if (count == 1 && shape.size() <= 1) {
      block_rows = request.rows;
      block_columns = request.columns;
    } else if (per_row) {
      block_rows = 1;
      block_columns = request.columns;
    } else {
      const std::string declared = block_rows > 0
                                       ? "[ceil(" + std::to_string(request.rows) + " / " +
                                             std::to_string(block_rows) + "), ceil(" +
                                             std::to_string(request.columns) + " / " +
                                             std::to_string(block_columns) + ")] of " +
                                             "quantization_config.weight_block_size"
                                       : "a scalar or one scale per row, as "
                                         "quantization_config.weight_block_size is not declared";
      return invalid_argument(located(*scales) + ": expected " + declared + ", got " +
                              describe_stored(scales->dtype, scales->shape));
    }
  }
  matrix.block_rows = static_cast<int32_t>(block_rows);
  matrix.block_columns = static_cast<int32_t>(block_columns);
  return std::optional(matrix);
}

}  // namespace baton
