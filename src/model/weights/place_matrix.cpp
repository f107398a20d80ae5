// Where a matrix ends up: in the mapped file, converted, or kept compressed with its scales; and
// kv_b_proj split into its absorbed halves.
#include <cstring>
#include <utility>

#include "kernels/reference/weights.h"
#include "model/quantization/scheme.h"
#include "model/weights/forms.h"
#include "model/weights/mapped_file.h"
#include "model/weights/safetensors.h"
#include "model/weights/weight_reader_state.h"

namespace baton {
namespace {

// A matrix as stored, in any form, whose rows can be read as f32.
class StoredMatrix {
 public:
  StoredMatrix(const StoredTensor& values, Dim rows, Dim columns)
      : values_(values),
        view_{.data = values_.data(),
              .rows = rows.size,
              .columns = columns.size,
              .form = form_of(values.dtype)} {}
  StoredMatrix(const QuantizedMatrix& matrix, Dim rows, Dim columns)
      : values_(*matrix.values),
        scales_(matrix.form == WeightForm::kFp8Block ? scale_values(*matrix.scales)
                                                     : std::vector<float>()),
        view_{.data = values_.data(),
              .scales =
                  scales_.empty() ? static_cast<const void*>(matrix.scales->data) : scales_.data(),
              .rows = rows.size,
              .columns = columns.size,
              .global_scale = matrix.global_scale,
              .block_rows = matrix.block_rows,
              .block_columns = matrix.block_columns,
              .form = matrix.form} {}

  void expand_row(int64_t row, float* out) const { reference::expand_row(view_, row, out); }

 private:
  AlignedValues values_;
  std::vector<float> scales_;  // fp8
  WeightView view_;
};

// [heads, elements] of `dtype` at `to`; fill(h, out) gives head h as f32.
template <typename Fill>
void write_heads(
    WeightStore& store, void* to, int64_t heads, int64_t elements, DType dtype, const Fill& fill) {
  const int64_t bytes = elements * dtype_bytes(dtype);
  std::vector<float> head(static_cast<size_t>(elements));
  store.write(to, heads * bytes, bytes, [&](int64_t offset, std::span<uint8_t> out) {
    const auto count = static_cast<int64_t>(out.size()) / bytes;
    for (int64_t h = 0; h < count; ++h) {
      fill(offset / bytes + h, head.data());
      store_values(head.data(), elements, dtype, out.data() + h * bytes);
    }
  });
}

}  // namespace

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
  const StoredMatrix source(stored, rows, columns);
  std::vector<float> row(static_cast<size_t>(columns.size));
  state.store.write(
      to, rows.size * row_bytes, row_bytes, [&](int64_t offset, std::span<uint8_t> out) {
        if (same_form) {
          std::memcpy(out.data(), stored.data + offset, out.size());
          return;
        }
        const auto count = static_cast<int64_t>(out.size()) / row_bytes;
        for (int64_t r = 0; r < count; ++r) {
          source.expand_row(offset / row_bytes + r, row.data());
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
  state.quantized.push_back(module);
  const bool fp8 = stored.form == WeightForm::kFp8Block;
  if (fp8 && stored.values->shape != std::vector<int64_t>{rows.size, columns.size}) {
    problem("tensor '" + stored.values->name + "' (" + stored.values->file +
            "): expected F8_E4M3 " + describe_dims({rows, columns}) + ", got " +
            describe_stored(stored.values->dtype, stored.values->shape));
    return placeholder(rows, columns);
  }
  const int64_t scales = stored.scales->bytes / dtype_bytes(stored.scales->dtype);
  record(module,
         rows.size * columns.size,
         stored.form,
         stored.values->bytes + (fp8 ? 4 * scales : scales),
         true);
  return {.data = as_stored(*stored.values),
          .scales = fp8 ? as_f32(*stored.scales) : as_stored(*stored.scales),
          .rows = rows.size,
          .columns = columns.size,
          .global_scale = stored.global_scale,
          .block_rows = stored.block_rows,
          .block_columns = stored.block_columns,
          .form = stored.form};
}

const void* WeightReader::as_stored(const StoredTensor& part) {
  WeightStore& store = state_->store;
  if (store.in_place()) return part.data;
  void* to = store.take(part.bytes);
  store.write(to, part.bytes, 1, [&](int64_t offset, std::span<uint8_t> out) {
    std::memcpy(out.data(), part.data + offset, out.size());
  });
  release_pages(part.data, part.bytes);
  return to;
}

const void* WeightReader::as_f32(const StoredTensor& scales) {
  WeightStore& store = state_->store;
  const bool usable = scales.dtype == DType::kF32 && store.in_place() &&
                      reinterpret_cast<uintptr_t>(scales.data) % sizeof(float) == 0;
  if (usable) return scales.data;
  if (store.planning()) return store.take(scales.bytes / dtype_bytes(scales.dtype) * 4);
  return constants(scale_values(scales)).data;
}

bool WeightReader::check_dry(const std::string& path, Dim rows, Dim columns) {
  State& state = *state_;
  WeightStore dry(/*in_place=*/true);
  WeightReader checker(
      state.checkpoint, dry, state.config, {.assume_present = state.options.assume_present});
  (void)checker.matrix(path, rows, columns);
  State& seen = *checker.state_;
  const bool sound = seen.problems.empty() && seen.missing.empty();
  state.consumed.insert(seen.consumed.begin(), seen.consumed.end());
  for (std::string& message : seen.problems) problem(std::move(message));
  for (const State::Missing& m : seen.missing) missing(m.name, m.expected);
  for (std::string& name : seen.quantized) state.quantized.push_back(std::move(name));
  if (sound && !state.options.assume_present && !state.checkpoint.names_only()) return true;
  for (WeightUse& use : seen.report.uses) state.report.uses.push_back(std::move(use));
  return false;
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
  if (!check_dry(path, rows, columns)) return halves(DType::kF32, state_.get(), state_.get());

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
  const int64_t key_bytes = heads * latent * nope * dtype_bytes(dtype);
  const int64_t value_bytes = heads * v * latent * dtype_bytes(dtype);
  record(path, rows.size * columns.size, form, key_bytes + value_bytes, true);
  void* key = state.store.take(key_bytes);
  void* value = state.store.take(value_bytes);
  if (state.store.planning()) return halves(dtype, key, value);

  const StoredMatrix source =
      is_packed ? StoredMatrix(**packed, rows, columns) : StoredMatrix(stored, rows, columns);
  std::vector<float> row(static_cast<size_t>(latent));
  write_heads(state.store, key, heads, latent * nope, dtype, [&](int64_t h, float* out) {
    for (int64_t n = 0; n < nope; ++n) {
      source.expand_row(h * (nope + v) + n, row.data());
      for (int64_t l = 0; l < latent; ++l) out[l * nope + n] = row[static_cast<size_t>(l)];
    }
  });
  write_heads(state.store, value, heads, v * latent, dtype, [&](int64_t h, float* out) {
    for (int64_t i = 0; i < v; ++i) source.expand_row(h * (nope + v) + nope + i, out + i * latent);
  });
  release_pages(stored.data, stored.bytes);
  advance(stored.bytes);
  return halves(dtype, key, value);
}

}  // namespace baton
