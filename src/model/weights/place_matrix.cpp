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

}  // namespace baton
