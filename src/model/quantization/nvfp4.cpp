// NVFP4: two e2m1 values per byte along the input, even index in the low nibble; one e4m3 scale
// per 16 inputs, row-major; one f32 scale per matrix. modelopt stores the latter as a multiplier,
// compressed-tensors as its reciprocal (models.md B.4).
#include <cmath>

#include "kv_cache/row_formats/latent_row.h"
#include "model/quantization/scheme.h"
#include "model/weights/safetensors.h"

namespace baton {
namespace {

std::string located(const StoredTensor& tensor) {
  return "tensor '" + tensor.name + "' (" + tensor.file + ")";
}

// Names of one convention.
struct Names {
  std::string values, scales, global;
  bool reciprocal;
};

Result<float> read_global_scale(const StoredTensor& global, bool reciprocal) {
  int64_t count = 1;
  for (const int64_t dim : global.shape) count *= dim;
  if (global.dtype != DType::kF32 || count != 1) {
    return invalid_argument(located(global) + ": expected F32 [] or [1], got " +
                            describe_stored(global.dtype, global.shape));
  }
  if (global.data == nullptr) return 1.0F;  // names only
  const float value = scale_values(global)[0];
  if (!(value > 0.0F) || !std::isfinite(value)) {
    return invalid_argument(located(global) + ": expected a finite number above 0, got " +
                            std::to_string(value));
  }
  return reciprocal ? 1.0F / value : value;
}

FoundMatrix find_nvfp4(const MatrixRequest& request, const Names& names) {
  const StoredTensor* values = request.checkpoint.find(names.values);
  if (values == nullptr || values->dtype != DType::kU8) return std::optional<QuantizedMatrix>();
  const StoredTensor* scales = request.checkpoint.find(names.scales);
  const StoredTensor* global = request.checkpoint.find(names.global);
  for (const auto& [part, name] : {std::pair{scales, names.scales}, {global, names.global}}) {
    if (part == nullptr) {
      return invalid_argument(located(*values) + ": is packed NVFP4, but '" + name +
                              "' does not exist");
    }
  }
  const std::vector<int64_t> packed{request.rows, request.columns / 2};
  const std::vector<int64_t> grid{request.rows, request.columns / kNvfp4ScaleGroup};
  if (request.columns % kNvfp4ScaleGroup != 0 || values->shape != packed) {
    return invalid_argument(located(*values) + ": expected " + describe_stored(DType::kU8, packed) +
                            " (inputs a multiple of 16), got " +
                            describe_stored(values->dtype, values->shape));
  }
  if (scales->dtype != DType::kF8E4M3 || scales->shape != grid) {
    return invalid_argument(located(*scales) + ": expected " +
                            describe_stored(DType::kF8E4M3, grid) + ", got " +
                            describe_stored(scales->dtype, scales->shape));
  }
  const Result<float> multiplier = read_global_scale(*global, names.reciprocal);
  if (!multiplier) return multiplier.error();
  return std::optional(QuantizedMatrix{.form = WeightForm::kNvfp4,
                                       .values = values,
                                       .scales = scales,
                                       .global_scale = *multiplier,
                                       .parts = {values, scales, global}});
}

}  // namespace

FoundMatrix find_nvfp4_modelopt(const MatrixRequest& request) {
  const std::string weight = std::string(request.module) + ".weight";
  return find_nvfp4(request, {weight, weight + "_scale", weight + "_scale_2", false});
}

FoundMatrix find_nvfp4_compressed(const MatrixRequest& request) {
  const std::string weight = std::string(request.module) + ".weight";
  return find_nvfp4(request,
                    {weight + "_packed", weight + "_scale", weight + "_global_scale", true});
}

}  // namespace baton
