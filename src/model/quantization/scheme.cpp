#include "model/quantization/scheme.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <regex>

#include "base/numeric.h"

namespace baton {
namespace {

constexpr std::array kSchemes{&find_nvfp4_compressed, &find_nvfp4_modelopt, &find_block_fp8};

// One entry of an exclude list, made once: a checkpoint has tens of thousands of modules.
class Exclusion {
 public:
  explicit Exclusion(const std::string& entry)
      : name_(entry), is_wildcard_(entry.find_first_of("*?[") != std::string::npos) {
    if (!entry.starts_with("re:")) return;
    try {
      // Time in proportion to the name, whatever the file says: libstdc++ backtracks otherwise.
      expression_ =
          std::regex(entry.substr(3), std::regex::ECMAScript | std::regex_constants::__polynomial);
    } catch (const std::regex_error&) {  // names nothing
    }
  }

  bool matches(const std::string& module) const {
    if (expression_) {  // from the start of the name, not to its end: Python's re.match
      return std::regex_search(module, *expression_, std::regex_constants::match_continuous);
    }
    if (is_wildcard_) return fnmatch(name_.c_str(), module.c_str(), 0) == 0;
    return module.starts_with(name_) &&
           (module.size() == name_.size() || module[name_.size()] == '.');
  }

 private:
  std::string name_;
  bool is_wildcard_;
  std::optional<std::regex> expression_;
};

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

std::vector<std::string> excluded_modules(const std::vector<std::string>& excluded,
                                          const std::vector<std::string>& modules) {
  const std::vector<Exclusion> entries(excluded.begin(), excluded.end());
  std::vector<std::string> found;
  for (const std::string& full : modules) {
    const std::string bare = full.starts_with("model.") ? full.substr(6) : full;
    const bool named = std::any_of(entries.begin(), entries.end(), [&](const Exclusion& entry) {
      return entry.matches(full) || entry.matches(bare);
    });
    if (named) found.push_back(full);
  }
  return found;
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
