// How a model's constructor gets its weights. Reading is sticky: problems are collected (missing,
// misshapen, wrongly typed tensors) together with the list of tensors nobody asked for, and
// finish() reports all of it, once. A reader with problems still hands out views, so that
// constructors need no error paths; such a model must not run.
//
// Used by the loading thread only. Copies of a reader (at()) share everything but the prefix.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/tensor.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/weights/checkpoint.h"
#include "model/weights/weight_store.h"

namespace baton {

// One dimension as the configuration gives it, with the keys it comes from, for messages.
struct Dim {
  int64_t size = 0;
  std::string_view keys;  // "num_attention_heads * v_head_dim"
};

enum class WeightDtype : uint8_t { kAsStored, kF32, kBF16 };  // of unquantised matrices

// A tensor (or quantised matrix) that the model uses.
struct WeightUse {
  std::string name;  // of the module or vector
  int64_t elements = 0;
  WeightForm form = WeightForm::kF32;  // in memory
  int64_t bytes = 0;                   // in memory, scales included
  bool is_matrix = false;
};

// What became of the checkpoint's tensors.
struct WeightReport {
  std::vector<WeightUse> uses;
  std::map<std::string, std::vector<std::string>> skipped;  // reason -> tensors
  std::vector<std::string> unconsumed;
  std::vector<std::string> warnings;
};

// The two halves of kv_b_proj that absorbed attention multiplies with.
struct AbsorbedHalves {
  ConstTensor key;    // W_uk [heads, latent, nope]: query -> latent space
  ConstTensor value;  // W_uv [heads, v, latent]: latent -> head output
};

class WeightReader {
 public:
  struct Options {
    WeightDtype dtype = WeightDtype::kAsStored;
    // Every tensor is taken to exist with the shape that is asked for: for counting parameters
    // of a configuration without weights. Only with a planning store.
    bool assume_present = false;
    std::function<void(int64_t done_bytes, int64_t total_bytes)> progress = {};
  };

  WeightReader(const Checkpoint& checkpoint,
               WeightStore& store,
               const ModelConfig& config,
               Options options);

  // The same reader with `prefix` before every name: at("model.layers.3.").
  WeightReader at(std::string_view prefix) const;

  // The matrix `module`.weight [rows, columns] in the form it is stored in (or the form --dtype
  // asks for), with its scales. Used in place where the device can.
  WeightView matrix(std::string_view module, Dim rows, Dim columns);
  // The same for a table that is looked up by row: must not be quantised.
  WeightView table(std::string_view module, Dim rows, Dim columns);
  // A small vector [size], as f32 on the device. `name` is the tensor's full name.
  ConstTensor vector(std::string_view name, Dim size);
  // vector() when `wanted`, else an empty tensor.
  ConstTensor vector_if(bool wanted, std::string_view name, Dim size);
  // kv_b_proj [heads * (nope + v), latent], head-major, nope rows first, split and transposed.
  AbsorbedHalves absorbed_halves(
      std::string_view module, int64_t heads, int64_t nope, int64_t v, int64_t latent);

  bool has(std::string_view name) const;
  // Tables and constants of the model itself, copied to the device.
  ConstTensor constants(std::span<const float> values);
  const WeightView* view_table(std::span<const WeightView> views);
  // Warns when the stored bytes of two tensors differ (not when planning).
  void warn_if_different(std::string_view a, std::string_view b, const std::string& message);

  // Everything at once: the first problem in words, how many more, and the tensors nobody asked
  // for. With `strict`, unconsumed tensors are an error too.
  Status finish(bool strict) const;
  const WeightReport& report();

 private:
  struct State;

  const StoredTensor* take(const std::string& name);
  void problem(std::string message);
  void missing(const std::string& name, const std::string& expected);
  WeightView dense(const std::string& module, const StoredTensor& stored, Dim rows, Dim columns);
  WeightView quantized(const std::string& module, Dim rows, Dim columns, bool& found);
  // Where the device can read a tensor's bytes, or its values as f32.
  const void* as_stored(const StoredTensor& part);
  const void* as_f32(const StoredTensor& scales);
  // The checks of matrix(), keeping nothing in memory; true when its values can be read.
  bool check_dry(const std::string& path, Dim rows, Dim columns);
  WeightView placeholder(Dim rows, Dim columns) const;
  void record(
      const std::string& name, int64_t elements, WeightForm form, int64_t bytes, bool is_matrix);
  void advance(int64_t bytes);

  std::shared_ptr<State> state_;
  std::string prefix_;
};

std::string_view weight_form_name(WeightForm form);  // "bf16", "fp8 block", ...

}  // namespace baton
