#include "model/quantization/scheme.h"

#include <fnmatch.h>

#include <array>
#include <cstring>
#include <regex>

#include "base/numeric.h"

namespace baton {
namespace {

constexpr std::array kSchemes{&find_nvfp4_compressed, &find_nvfp4_modelopt, &find_block_fp8};

bool matches_entry(const std::string& entry, const std::string& module) {
  if (entry.starts_with("re:")) {
    try {
      return std::regex_match(module, std::regex(entry.substr(3)));
    } catch (const std::regex_error&) {
      return false;
    }
  }
  if (entry.find_first_of("*?[") != std::string::npos) {
    return fnmatch(entry.c_str(), module.c_str(), 0) == 0;
  }
  return module == entry || module.starts_with(entry + ".");
}

}  // namespace

FoundMatrix find_quantized(const MatrixRequest& request) {
  for (const auto find : kSchemes) {
    FoundMatrix found = find(request);
    if (!found || found->has_value()) return found;
  }
  return std::optional<QuantizedMatrix>();
}

bool is_activation_scale(std::string_view tensor) {
  constexpr std::array<std::string_view, 8> kSuffixes{".input_scale",
                                                      ".input_global_scale",
                                                      ".k_scale",
                                                      ".v_scale",
                                                      ".q_scale",
                                                      ".output_scale",
                                                      ".kv_scale",
                                                      ".input_zero_point"};
  for (const std::string_view suffix : kSuffixes) {
    if (tensor.ends_with(suffix)) return true;
  }
  return false;
}

bool is_excluded(const std::vector<std::string>& excluded, std::string_view module) {
  const std::string full(module);
  const std::string bare = full.starts_with("model.") ? full.substr(6) : full;
  for (const std::string& entry : excluded) {
    if (matches_entry(entry, full) || matches_entry(entry, bare)) return true;
  }
  return false;
}

std::vector<float> scale_values(const StoredTensor& scales) {
  const auto count = static_cast<size_t>(scales.bytes / dtype_bytes(scales.dtype));
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* at = scales.data + i * static_cast<size_t>(dtype_bytes(scales.dtype));
    uint16_t half = 0;
    switch (scales.dtype) {
      case DType::kBF16:
        std::memcpy(&half, at, sizeof half);
        values[i] = bf16_to_float(half);
        break;
      case DType::kF16:
        std::memcpy(&half, at, sizeof half);
        values[i] = f16_to_float(half);
        break;
      case DType::kF8E8M0:  // a bare exponent; 255 is NaN
        values[i] = *at == 255 ? std::nanf("") : std::ldexp(1.0F, static_cast<int>(*at) - 127);
        break;
      default:
        std::memcpy(&values[i], at, sizeof(float));
        break;
    }
  }
  return values;
}

}  // namespace baton
