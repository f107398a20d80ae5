#include "model/weights/weight_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/numeric.h"
#include "kernels/reference/weights.h"
#include "model/nearest_name.h"
#include "model/quantization/scheme.h"
#include "model/weights/mapped_file.h"
#include "model/weights/safetensors.h"

namespace baton {
namespace {

constexpr int64_t kProgressStep = 64 << 20;
constexpr size_t kShownNames = 8;

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

std::string describe_dims(const std::vector<Dim>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims[i].size);
    if (!dims[i].keys.empty()) text += " = " + std::string(dims[i].keys);
  }
  return text + "]";
}

// A mapped tensor as values that may be read as their type: the mapping itself, or a copy where
// its address is not aligned.
class AlignedValues {
 public:
  explicit AlignedValues(const StoredTensor& stored) : data_(stored.data) {
    const auto width = static_cast<uintptr_t>(dtype_bytes(stored.dtype));
    if (reinterpret_cast<uintptr_t>(stored.data) % width == 0) return;
    copy_.resize(static_cast<size_t>(stored.bytes + 7) / 8);
    std::memcpy(copy_.data(), stored.data, static_cast<size_t>(stored.bytes));
    data_ = copy_.data();
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  std::vector<uint64_t> copy_;
};

// values[0, count) as `dtype` (f32, bf16 or f16) at `to`.
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

// The N of "model.layers.N."; -1 for other names.
int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return -1;
  int64_t layer = -1;
  const char* first = name.data() + kPrefix.size();
  const auto [end, error] = std::from_chars(first, name.data() + name.size(), layer);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
}

// Why a tensor that nobody asked for is no surprise; empty when it is one.
std::string skip_reason(const std::string& name, const ModelConfig& config) {
  const int64_t layer = layer_of(name);
  if (layer >= config.num_layers && layer < config.num_layers + config.num_mtp_layers) {
    return "MTP layer, not executed yet";
  }
  if (name.ends_with("rotary_emb.inv_freq")) return "rotary frequencies are computed";
  if (name.find(".indexer.") != std::string::npos && layer >= 0 && layer < config.num_layers &&
      config.has_indexer() &&
      config.indexer_modes[static_cast<size_t>(layer)] == IndexerMode::kShared) {
    return "indexer of a layer that shares a selection";
  }
  if (is_activation_scale(name)) return "activation scale: activations stay f32";
  return "";
}

std::string first_names(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kShownNames; ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kShownNames) list += ", ...";
  return list;
}

}  // namespace

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

struct WeightReader::State {
  struct Missing {
    std::string name, expected;
  };

  const Checkpoint& checkpoint;
  WeightStore& store;
  const ModelConfig& config;
  Options options;
  std::unordered_set<const StoredTensor*> consumed = {};
  std::vector<std::string> problems = {};
  std::vector<Missing> missing = {};
  std::vector<std::string> excluded_but_quantized = {};
  WeightReport report = {};
  int64_t done_bytes = 0;
  int64_t reported_bytes = 0;
};

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

// What constructors get for a tensor that is not sound: never dereferenced.
WeightView WeightReader::placeholder(Dim rows, Dim columns) const {
  return {.data = state_.get(), .rows = rows.size, .columns = columns.size};
}

WeightView WeightReader::dense(const std::string& module,
                               const StoredTensor& stored,
                               Dim rows,
                               Dim columns) {
  State& state = *state_;
  const WeightForm form = wanted_form(form_of(stored.dtype), state.options.dtype);
  const DType dtype = dtype_of(form);
  const int64_t elements = rows.size * columns.size;
  WeightView view{.rows = rows.size, .columns = columns.size, .form = form};
  record(module, elements, form, elements * dtype_bytes(dtype), true);
  const bool same_form = dtype == stored.dtype;
  const bool aligned = reinterpret_cast<uintptr_t>(stored.data) %
                           static_cast<uintptr_t>(dtype_bytes(stored.dtype)) ==
                       0;
  advance(stored.bytes);
  if (same_form && aligned && state.store.in_place()) {
    view.data = stored.data;
    return view;
  }
  void* to = state.store.take(elements * dtype_bytes(dtype));
  view.data = to;
  if (state.store.planning()) return view;
  const int64_t row_bytes = columns.size * dtype_bytes(dtype);
  const AlignedValues values(stored);
  const WeightView source{.data = values.data(),
                          .rows = rows.size,
                          .columns = columns.size,
                          .form = form_of(stored.dtype)};
  std::vector<float> row(static_cast<size_t>(columns.size));
  state.store.write(
      to, rows.size * row_bytes, row_bytes, [&](int64_t offset, std::span<uint8_t> out) {
        if (same_form) {
          std::memcpy(out.data(), stored.data + offset, out.size());
          return;
        }
        const auto count = static_cast<int64_t>(out.size()) / row_bytes;
        for (int64_t r = 0; r < count; ++r) {
          reference::expand_row(source, offset / row_bytes + r, row.data());
          store_values(row.data(), columns.size, dtype, out.data() + r * row_bytes);
        }
      });
  release_pages(stored.data, stored.bytes);
  return view;
}

WeightView WeightReader::quantized(const std::string& module, Dim rows, Dim columns, bool& found) {
  State& state = *state_;
  const FoundMatrix matrix = find_quantized({.checkpoint = state.checkpoint,
                                             .declared = state.config.quantization,
                                             .module = module,
                                             .rows = rows.size,
                                             .columns = columns.size});
  found = true;
  if (!matrix) {
    take(module + ".weight");
    problem(matrix.error().message);
    return placeholder(rows, columns);
  }
  if (!matrix->has_value()) {
    found = false;
    return {};
  }
  const QuantizedMatrix& stored = **matrix;
  for (const StoredTensor* part : stored.parts) {
    state.consumed.insert(part);
    advance(part->bytes);
  }
  if (is_excluded(state.config.quantization.excluded, module)) {
    state.excluded_but_quantized.push_back(module);
  }
  const bool fp8 = stored.form == WeightForm::kFp8Block;
  if (fp8 && stored.values->shape != std::vector<int64_t>{rows.size, columns.size}) {
    problem("tensor '" + stored.values->name + "' (" + stored.values->file +
            "): expected F8_E4M3 " + describe_dims({rows, columns}) + ", got " +
            describe_stored(stored.values->dtype, stored.values->shape));
    return placeholder(rows, columns);
  }
  WeightView view{.rows = rows.size,
                  .columns = columns.size,
                  .global_scale = stored.global_scale,
                  .block_rows = stored.block_rows,
                  .block_columns = stored.block_columns,
                  .form = stored.form};
  const auto raw = [&](const StoredTensor& part) -> const void* {
    if (state.store.in_place()) return part.data;
    void* to = state.store.take(part.bytes);
    state.store.write(to, part.bytes, 1, [&](int64_t offset, std::span<uint8_t> out) {
      std::memcpy(out.data(), part.data + offset, out.size());
    });
    release_pages(part.data, part.bytes);
    return to;
  };
  view.data = raw(*stored.values);
  int64_t scale_bytes = stored.scales->bytes;
  if (fp8) {
    scale_bytes = stored.scales->bytes / dtype_bytes(stored.scales->dtype) * 4;
    const bool usable = stored.scales->dtype == DType::kF32 && state.store.in_place() &&
                        reinterpret_cast<uintptr_t>(stored.scales->data) % 4 == 0;
    if (usable) {
      view.scales = stored.scales->data;
    } else if (state.store.planning()) {
      view.scales = state.store.take(scale_bytes);
    } else {
      view.scales = constants(scale_values(*stored.scales)).data;
    }
  } else {
    view.scales = raw(*stored.scales);
  }
  record(module, rows.size * columns.size, stored.form, stored.values->bytes + scale_bytes, true);
  return view;
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
    bool present = take(name) != nullptr;
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

AbsorbedHalves WeightReader::absorbed_halves(
    std::string_view module, int64_t heads, int64_t nope, int64_t v, int64_t latent) {
  State& state = *state_;
  const Dim rows{heads * (nope + v), "num_attention_heads * (qk_nope_head_dim + v_head_dim)"};
  const Dim columns{latent, "kv_lora_rank"};
  const std::string path = prefix_ + std::string(module);
  const auto halves = [&](DType dtype, const void* key, const void* value) {
    return AbsorbedHalves{make_tensor(key, dtype, {heads, latent, nope}),
                          make_tensor(value, dtype, {heads, v, latent})};
  };
  // Dry: the checks of matrix(), with nothing kept in memory.
  WeightStore dry(/*in_place=*/true);
  const auto known = state.problems.size() + state.missing.size();
  WeightReader checker(
      state.checkpoint, dry, state.config, {.assume_present = state.options.assume_present});
  (void)checker.matrix(path, rows, columns);
  State& seen = *checker.state_;
  state.consumed.insert(seen.consumed.begin(), seen.consumed.end());
  for (std::string& message : seen.problems) problem(std::move(message));
  for (const State::Missing& m : seen.missing) missing(m.name, m.expected);
  for (std::string& name : seen.excluded_but_quantized) {
    state.excluded_but_quantized.push_back(std::move(name));
  }
  if (state.problems.size() + state.missing.size() != known || state.options.assume_present ||
      state.checkpoint.names_only()) {
    for (WeightUse& use : seen.report.uses) state.report.uses.push_back(std::move(use));
    return halves(DType::kF32, state_.get(), state_.get());
  }

  const FoundMatrix packed = find_quantized({.checkpoint = state.checkpoint,
                                             .declared = state.config.quantization,
                                             .module = path,
                                             .rows = rows.size,
                                             .columns = columns.size});
  const bool is_packed = packed && packed->has_value();
  const StoredTensor& stored =
      is_packed ? *(*packed)->values : *state.checkpoint.find(path + ".weight");
  // Expanding a quantised matrix gives f32; what is kept is the model's own dtype.
  const WeightForm natural = !is_packed                        ? form_of(stored.dtype)
                             : state.config.dtype == "float32" ? WeightForm::kF32
                                                               : WeightForm::kBF16;
  const WeightForm form = wanted_form(natural, state.options.dtype);
  const DType dtype = dtype_of(form);
  const int64_t width = dtype_bytes(dtype);
  const int64_t key_bytes = latent * nope * width;
  const int64_t value_bytes = v * latent * width;
  record(path, rows.size * columns.size, form, heads * (key_bytes + value_bytes), true);
  void* key = state.store.take(heads * key_bytes);
  void* value = state.store.take(heads * value_bytes);
  if (state.store.planning()) return halves(dtype, key, value);

  const AlignedValues values(stored);
  std::vector<float> scales;
  WeightView source{.data = values.data(),
                    .rows = rows.size,
                    .columns = columns.size,
                    .form = is_packed ? (*packed)->form : form_of(stored.dtype)};
  if (is_packed) {
    const QuantizedMatrix& matrix = **packed;
    source.global_scale = matrix.global_scale;
    source.block_rows = matrix.block_rows;
    source.block_columns = matrix.block_columns;
    source.scales = matrix.scales->data;
    if (source.form == WeightForm::kFp8Block) {
      scales = scale_values(*matrix.scales);
      source.scales = scales.data();
    }
  }
  std::vector<float> row(static_cast<size_t>(latent));
  std::vector<float> transposed(static_cast<size_t>(latent * nope));
  state.store.write(key, heads * key_bytes, key_bytes, [&](int64_t offset, std::span<uint8_t> out) {
    const auto count = static_cast<int64_t>(out.size()) / key_bytes;
    for (int64_t h = 0; h < count; ++h) {
      const int64_t first = (offset / key_bytes + h) * (nope + v);
      for (int64_t n = 0; n < nope; ++n) {
        reference::expand_row(source, first + n, row.data());
        for (int64_t l = 0; l < latent; ++l) {
          transposed[static_cast<size_t>(l * nope + n)] = row[static_cast<size_t>(l)];
        }
      }
      store_values(transposed.data(), latent * nope, dtype, out.data() + h * key_bytes);
    }
  });
  state.store.write(
      value, heads * value_bytes, value_bytes, [&](int64_t offset, std::span<uint8_t> out) {
        const auto count = static_cast<int64_t>(out.size()) / value_bytes;
        for (int64_t h = 0; h < count; ++h) {
          const int64_t first = (offset / value_bytes + h) * (nope + v) + nope;
          for (int64_t i = 0; i < v; ++i) {
            reference::expand_row(source, first + i, row.data());
            store_values(
                row.data(), latent, dtype, out.data() + h * value_bytes + i * latent * width);
          }
        }
      });
  release_pages(stored.data, stored.bytes);
  advance(stored.bytes);
  return halves(dtype, key, value);
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

const WeightReport& WeightReader::report() {
  State& state = *state_;
  WeightReport& report = state.report;
  report.skipped.clear();
  report.unconsumed.clear();
  bool has_mtp = false;
  for (const auto& [name, stored] : state.checkpoint.tensors()) {
    has_mtp = has_mtp || layer_of(name) >= state.config.num_layers;
    if (state.consumed.contains(&stored)) continue;
    const std::string reason = skip_reason(name, state.config);
    if (reason.empty()) {
      report.unconsumed.push_back(name);
    } else {
      report.skipped[reason].push_back(name);
    }
  }
  if (state.config.num_mtp_layers > 0 && !has_mtp && !state.checkpoint.tensors().empty()) {
    report.warnings.push_back("config.json declares " +
                              std::to_string(state.config.num_mtp_layers) +
                              " MTP layer(s), the files have none");
  }
  if (!state.excluded_but_quantized.empty()) {
    report.warnings.push_back(
        std::to_string(state.excluded_but_quantized.size()) +
        " matrices are quantised although the exclude list names them; their scales decide: " +
        first_names(state.excluded_but_quantized));
    state.excluded_but_quantized.clear();
  }
  return report;
}

Status WeightReader::finish(bool strict) const {
  const State& state = *state_;
  std::vector<std::string> unconsumed;
  for (const auto& [name, stored] : state.checkpoint.tensors()) {
    if (!state.consumed.contains(&stored) && skip_reason(name, state.config).empty()) {
      unconsumed.push_back(name);
    }
  }
  const std::string& folder = state.config.folder;
  const size_t count = state.problems.size() + state.missing.size();
  if (count == 0 && (unconsumed.empty() || !strict)) return {};
  std::string message = folder + ": ";
  if (count == 0) {
    return invalid_argument(message + std::to_string(unconsumed.size()) +
                            " tensors that nothing uses (--strict): " + first_names(unconsumed));
  }
  if (!state.problems.empty()) {
    message += state.problems.front();
  } else {
    const State::Missing& first = state.missing.front();
    message += "tensor '" + first.name + "' is missing: expected " + first.expected;
    const std::string nearest = nearest_name(first.name, unconsumed);
    if (!nearest.empty()) message += "; nearest unused name: '" + nearest + "'";
  }
  if (count > 1) message += "; " + std::to_string(count - 1) + " more problems";
  if (!state.missing.empty() && (state.missing.size() > 1 || !state.problems.empty())) {
    std::vector<std::string> names;
    for (const State::Missing& m : state.missing) names.push_back(m.name);
    message += "; missing: " + first_names(names);
  }
  if (!unconsumed.empty()) {
    message += "; " + std::to_string(unconsumed.size()) +
               " tensors that nothing uses: " + first_names(unconsumed);
  }
  return invalid_argument(message);
}

}  // namespace baton
