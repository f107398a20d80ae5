// How a quantised matrix is stored, one file per scheme. Whether a matrix is quantised is decided
// by the presence of its scale tensors, never by a list in the configuration alone
// (models.md B.4, section J). A needed scale that exists nowhere is an error, never 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/weights/checkpoint.h"

namespace baton {

struct QuantizedMatrix {
  WeightForm form = WeightForm::kFp8Block;
  const StoredTensor* values = nullptr;
  const StoredTensor* scales = nullptr;  // fp8: F32, BF16 or F8_E8M0; nvfp4: F8_E4M3
  float global_scale = 1.0F;             // a multiplier in every scheme
  int32_t block_rows = 0;                // fp8
  int32_t block_columns = 0;
  std::vector<const StoredTensor*> parts;  // every tensor that was read for it
};

// What a scheme finds for the matrix [rows, columns] of `module` ("model.layers.0.mlp.up_proj"):
// nothing when the module is not stored this way; an error when it is, but not soundly.
using FoundMatrix = Result<std::optional<QuantizedMatrix>>;

struct MatrixRequest {
  const Checkpoint& checkpoint;
  const QuantizationDeclaration& declared;
  std::string_view module;
  int64_t rows;
  int64_t columns;
};

FoundMatrix find_block_fp8(const MatrixRequest& request);
FoundMatrix find_nvfp4_modelopt(const MatrixRequest& request);
FoundMatrix find_nvfp4_compressed(const MatrixRequest& request);

// Tries every scheme of the table.
FoundMatrix find_quantized(const MatrixRequest& request);

// Suffixes of tensors that belong to quantised activations, which we keep in f32.
bool is_activation_scale(std::string_view tensor);

// Those of `modules` that the exclude list names. Entries are names or prefixes (of path segments),
// shell wildcards, or regular expressions after "re:", which fit the beginning of a
// name (compressed-tensors matches them by re.match); with or without a leading "model.".
std::vector<std::string> excluded_modules(const std::vector<std::string>& excluded,
                                          const std::vector<std::string>& modules);

// Values of a scale tensor as f32.
std::vector<float> scale_values(const StoredTensor& scales);

}  // namespace baton
