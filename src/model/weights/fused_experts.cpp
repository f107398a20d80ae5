#include "model/weights/fused_experts.h"

#include <utility>
#include <vector>

#include "model/weights/forms.h"
#include "model/weights/safetensors.h"

namespace baton {
namespace {

constexpr std::string_view kExperts = ".experts.";
constexpr std::string_view kGateUp = ".experts.gate_up_proj";
constexpr std::string_view kDown = ".experts.down_proj";
constexpr int64_t kMaxExperts = 65536;

// Expert `e` of `fused`: rows [first, first + rows) of its matrix.
StoredTensor slice(
    const StoredTensor& fused, int64_t e, const char* projection, int64_t first, int64_t rows) {
  const int64_t row_bytes = fused.shape[2] * dtype_bytes(fused.dtype);
  const std::string stem = fused.name.substr(0, fused.name.rfind('.') + 1);
  return {.name = stem + std::to_string(e) + "." + projection + ".weight",
          .dtype = fused.dtype,
          .shape = {rows, fused.shape[2]},
          .data = fused.data + (e * fused.shape[1] + first) * row_bytes,
          .bytes = rows * row_bytes,
          .file = fused.file + ", in '" + fused.name + "'"};
}

}  // namespace

Status split_fused_experts(std::map<std::string, StoredTensor, std::less<>>& tensors) {
  std::vector<StoredTensor> slices;
  for (auto at = tensors.begin(); at != tensors.end();) {
    const StoredTensor& fused = at->second;
    const bool gate_up = fused.name.ends_with(kGateUp);
    if (!gate_up && !fused.name.ends_with(kDown)) {
      ++at;
      continue;
    }
    const bool sound = is_dense(fused.dtype) && fused.shape.size() == 3 && fused.bytes > 0 &&
                       fused.shape[0] <= kMaxExperts && (!gate_up || fused.shape[1] % 2 == 0);
    if (!sound) {
      return invalid_argument(
          "tensor '" + fused.name + "' (" + fused.file +
          "): expected fused experts of transformers 5, F32, BF16 or F16 " +
          (gate_up ? "[experts, 2 * width, hidden]" : "[experts, hidden, width]") + ", got " +
          describe_stored(fused.dtype, fused.shape) +
          "; saving with save_original_format=True gives one tensor per expert");
    }
    for (int64_t e = 0; e < fused.shape[0]; ++e) {
      const int64_t rows = gate_up ? fused.shape[1] / 2 : fused.shape[1];
      slices.push_back(slice(fused, e, gate_up ? "gate_proj" : "down_proj", 0, rows));
      if (gate_up) slices.push_back(slice(fused, e, "up_proj", rows, rows));
    }
    at = tensors.erase(at);
  }
  for (StoredTensor& expert : slices) {
    const std::string name = expert.name;
    const std::string file = expert.file;
    const auto [at, inserted] = tensors.emplace(name, std::move(expert));
    if (!inserted) {
      std::string message = "tensor '" + name + "' (";
      message.append(file).append(") is also in ").append(at->second.file);
      return invalid_argument(std::move(message));
    }
  }
  return {};
}

std::string fused_experts_name(std::string_view module) {
  const size_t experts = module.rfind(kExperts);
  const size_t dot = module.rfind('.');
  if (experts == std::string_view::npos || dot <= experts + kExperts.size()) return "";
  const bool down = module.substr(dot) == ".down_proj";
  return std::string(module.substr(0, experts)) + std::string(down ? kDown : kGateUp);
}

}  // namespace baton
