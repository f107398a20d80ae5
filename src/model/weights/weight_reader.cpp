#include "model/weights/weight_reader.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/reference/weights.h"
#include "model/weights/forms.h"
#include "model/weights/fused_experts.h"
#include "model/weights/safetensors.h"
#include "model/weights/weight_reader_state.h"

namespace baton {
namespace {

constexpr int64_t kProgressStep = 64 << 20;

}  // namespace

std::string describe_dims(const std::vector<Dim>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims[i].size);
    if (!dims[i].keys.empty()) text += " = " + std::string(dims[i].keys);
  }
  return text + "]";
}

WeightReader::WeightReader(const Checkpoint& checkpoint,
                           WeightStore& store,
                           const ModelConfig& config,
                           Options options)
    : state_(std::make_shared<State>(State{.checkpoint = checkpoint,
                                           .store = store,
                                           .config = config,
                                           .options = std::move(options)})) {
  BATON_CHECK(!state_->options.assume_present || store.planning(), "nothing to load");
}

WeightReader WeightReader::at(std::string_view prefix) const {
  WeightReader reader = *this;
  reader.prefix_ += prefix;
  return reader;
}

bool WeightReader::has(std::string_view name) const {
  return state_->checkpoint.find(prefix_ + std::string(name)) != nullptr;
}

const StoredTensor* WeightReader::take(const std::string& name) {
  const StoredTensor* stored = state_->checkpoint.find(name);
  if (stored != nullptr) state_->consumed.insert(stored);
  return stored;
}

void WeightReader::problem(std::string message) {
  state_->problems.push_back(std::move(message));
}

void WeightReader::missing(const std::string& name, const std::string& expected) {
  state_->missing.push_back({name, expected});
}

void WeightReader::record(
    const std::string& name, int64_t elements, WeightForm form, int64_t bytes, bool is_matrix) {
  state_->report.uses.push_back({name, elements, form, bytes, is_matrix});
}

void WeightReader::advance(int64_t bytes) {
  State& state = *state_;
  if (state.store.planning() || !state.options.progress) return;
  state.done_bytes += bytes;
  if (state.done_bytes - state.reported_bytes < kProgressStep) return;
  state.reported_bytes = state.done_bytes;
  state.options.progress(state.done_bytes, state.checkpoint.bytes());
}

WeightView WeightReader::matrix(std::string_view module, Dim rows, Dim columns) {
  State& state = *state_;
  const std::string path = prefix_ + std::string(module);
  const std::string name = path + ".weight";
  const int64_t elements = rows.size * columns.size;
  if (state.options.assume_present) {
    record(path, elements, WeightForm::kBF16, 2 * elements, true);
    return placeholder(rows, columns);
  }
  if (state.checkpoint.names_only()) {
    WeightForm form = WeightForm::kBF16;
    bool present = take(name) != nullptr || take(fused_experts_name(path)) != nullptr;
    for (const auto& [suffix, says] : {std::pair{".weight_scale_inv", WeightForm::kFp8Block},
                                       {".weight_scale", WeightForm::kFp8Block},
                                       {".weight_scale_2", WeightForm::kNvfp4},
                                       {".weight_global_scale", WeightForm::kNvfp4},
                                       {".weight_packed", WeightForm::kNvfp4}}) {
      if (take(path + suffix) == nullptr) continue;
      form = says;
      present = true;
    }
    if (!present) missing(name, describe_dims({rows, columns}));
    const std::string global = path + ".weight_global_scale";
    if (take(path + ".weight_packed") != nullptr && take(global) == nullptr) {
      missing(global, "the scale of packed NVFP4 values");
    }
    record(path, elements, form, 0, true);
    return placeholder(rows, columns);
  }
  bool found = false;
  const WeightView view = quantized(path, rows, columns, found);
  if (found) return view;
  const StoredTensor* stored = take(name);
  if (stored == nullptr) {
    missing(name, describe_dims({rows, columns}));
    return placeholder(rows, columns);
  }
  const bool packed = stored->dtype == DType::kU8 || stored->dtype == DType::kI8;
  if (!is_dense(stored->dtype) || stored->shape != std::vector<int64_t>{rows.size, columns.size}) {
    problem("tensor '" + name + "' (" + stored->file + "): expected F32, BF16 or F16 " +
            describe_dims({rows, columns}) + ", got " +
            describe_stored(stored->dtype, stored->shape) +
            (packed ? " without the scales that would say how it is quantised" : ""));
    return placeholder(rows, columns);
  }
  return dense(path, *stored, rows, columns);
}

WeightView WeightReader::table(std::string_view module, Dim rows, Dim columns) {
  const WeightView view = matrix(module, rows, columns);
  if (view.form == WeightForm::kFp8Block || view.form == WeightForm::kNvfp4) {
    problem("tensor '" + prefix_ + std::string(module) +
            ".weight': expected F32, BF16 or F16 as it is looked up by row, got " +
            std::string(weight_form_name(view.form)));
  }
  return view;
}

ConstTensor WeightReader::vector(std::string_view name, Dim size) {
  State& state = *state_;
  const std::string path = prefix_ + std::string(name);
  const StoredTensor* stored = state.options.assume_present ? nullptr : take(path);
  ConstTensor result =
      make_tensor(static_cast<const void*>(state_.get()), DType::kF32, {size.size});
  if (state.options.assume_present || (stored != nullptr && state.checkpoint.names_only())) {
    record(path, size.size, WeightForm::kF32, 4 * size.size, false);
    return result;
  }
  if (stored == nullptr) {
    missing(path, describe_dims({size}));
    return result;
  }
  if (!is_dense(stored->dtype) || stored->shape != std::vector<int64_t>{size.size}) {
    problem("tensor '" + path + "' (" + stored->file + "): expected F32, BF16 or F16 " +
            describe_dims({size}) + ", got " + describe_stored(stored->dtype, stored->shape));
    return result;
  }
  record(path, size.size, WeightForm::kF32, 4 * size.size, false);
  advance(stored->bytes);
  if (state.store.planning()) {
    result.data = state.store.take(4 * size.size);
    return result;
  }
  const AlignedValues values(*stored);
  std::vector<float> wide(static_cast<size_t>(size.size));
  reference::expand_values(values.data(), stored->dtype, 0, size.size, wide.data());
  return constants(wide);
}

ConstTensor WeightReader::vector_if(bool wanted, std::string_view name, Dim size) {
  return wanted ? vector(name, size) : ConstTensor();
}

ConstTensor WeightReader::constants(std::span<const float> values) {
  WeightStore& store = state_->store;
  const auto count = static_cast<int64_t>(values.size());
  void* to = store.take(4 * count);
  store.write(to, 4 * count, 4, [&](int64_t offset, std::span<uint8_t> out) {
    std::memcpy(out.data(), reinterpret_cast<const uint8_t*>(values.data()) + offset, out.size());
  });
  return make_tensor(static_cast<const void*>(to), DType::kF32, {count});
}

const WeightView* WeightReader::view_table(std::span<const WeightView> views) {
  WeightStore& store = state_->store;
  const auto bytes = static_cast<int64_t>(views.size_bytes());
  void* to = store.take(bytes);
  store.write(to, bytes, 1, [&](int64_t offset, std::span<uint8_t> out) {
    std::memcpy(out.data(), reinterpret_cast<const uint8_t*>(views.data()) + offset, out.size());
  });
  return static_cast<const WeightView*>(to);
}

void WeightReader::warn_if_different(std::string_view a,
                                     std::string_view b,
                                     const std::string& message) {
  const StoredTensor* left = state_->checkpoint.find(prefix_ + std::string(a));
  const StoredTensor* right = state_->checkpoint.find(prefix_ + std::string(b));
  if (state_->store.planning() || left == nullptr || right == nullptr) return;
  if (left->bytes != right->bytes ||
      std::memcmp(left->data, right->data, static_cast<size_t>(left->bytes)) != 0) {
    state_->report.warnings.push_back(message);
  }
}

}  // namespace baton
