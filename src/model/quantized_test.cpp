// Quantised checkpoints against the same numbers stored as f32: made here from a tiny checkpoint,
// so that every convention and odd block size is covered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/log.h"
#include "base/numeric.h"
#include "model/doctor.h"
#include "model/quantization/scheme.h"
#include "model/testing/checkpoint_editor.h"
#include "model/testing/model_harness.h"

namespace baton {
namespace {

using testing::CheckpointEditor;
using testing::EditedTensor;
using testing::f32_tensor;
using ::testing::HasSubstr;
using testing::ModelHarness;
using testing::raw_tensor;
using testing::relative_l2;
using testing::TempFolder;
using testing::values_of;

constexpr const char* kFolder = "testdata/glm-dsa-geometry";

LoadOptions exact() {
  LoadOptions options;
  options.kv_cache_dtype = KvCacheDtype::kF32;
  options.dtype = "float32";  // kv_b_proj is split in f32
  return options;
}

std::vector<float> logits_of(const CheckpointEditor& editor, const std::string& table = "auto") {
  const TempFolder folder;
  editor.write(folder.path());
  auto harness = ModelHarness::open(folder.path(), table, exact(), 192);
  EXPECT_TRUE(harness) << harness.error().message;
  if (!harness) return {};
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 100; ++i) ids.push_back((i * 53 + 7) % 250);
  return (*harness)->run(ids);
}

std::string error_of(const CheckpointEditor& editor) {
  const TempFolder folder;
  editor.write(folder.path());
  const auto device = open_device("cpu", 1);
  const auto model = load_model(folder.path(), **device, exact());
  return model ? "no error" : model.error().message;
}

// Linear layers that published FP8 checkpoints quantise.
bool is_quantizable(const std::string& name) {
  return name.starts_with("model.layers.") && name.ends_with("_proj.weight") &&
         name.find("weights_proj") == std::string::npos;
}

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Replaces `name` by e4m3 values and a grid of scales; returns what they mean as f32.
EditedTensor quantize_fp8(CheckpointEditor& editor,
                          const std::string& name,
                          int64_t block_rows,
                          int64_t block_columns,
                          const std::string& suffix,
                          DType scale_dtype) {
  const EditedTensor source = editor.tensors.at(name);
  const std::vector<float> values = values_of(source);
  const int64_t rows = source.shape[0];
  const int64_t columns = source.shape[1];
  const int64_t grid_rows = ceil_div(rows, block_rows);
  const int64_t grid_columns = ceil_div(columns, block_columns);
  std::vector<float> scales(static_cast<size_t>(grid_rows * grid_columns), 0.0F);
  const auto block = [&](int64_t r, int64_t c) {
    return static_cast<size_t>(r / block_rows * grid_columns + c / block_columns);
  };
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      float& scale = scales[block(r, c)];
      scale = std::max(scale, std::fabs(values[static_cast<size_t>(r * columns + c)]) / 448.0F);
    }
  }
  std::string packed_scales;
  for (float& scale : scales) {
    if (scale_dtype == DType::kF8E8M0) {
      scale = ceil_power_of_two(scale);
      packed_scales += static_cast<char>(std::ilogb(scale) + 127);
    } else if (scale_dtype == DType::kBF16) {
      const uint16_t bits = float_to_bf16(scale);
      scale = bf16_to_float(bits);
      packed_scales.append(reinterpret_cast<const char*>(&bits), 2);
    } else {
      packed_scales.append(reinterpret_cast<const char*>(&scale), 4);
    }
  }
  std::string codes;
  std::vector<float> expanded;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const float scale = scales[block(r, c)];
      const uint8_t code = float_to_e4m3(values[static_cast<size_t>(r * columns + c)] / scale);
      codes += static_cast<char>(code);
      expanded.push_back(e4m3_to_float(code) * scale);
    }
  }
  editor.tensors[name] = raw_tensor(DType::kF8E4M3, source.shape, codes);
  editor.tensors[name + suffix] = raw_tensor(scale_dtype, {grid_rows, grid_columns}, packed_scales);
  return f32_tensor(source.shape, expanded);
}

struct Fp8Case {
  const char* name;
  int64_t block_rows, block_columns;
  const char* suffix;
  DType scale_dtype;
};

class Fp8 : public ::testing::TestWithParam<Fp8Case> {};

TEST_P(Fp8, LogitsAreThoseOfTheExpandedWeights) {
  const Fp8Case& c = GetParam();
  CheckpointEditor editor = CheckpointEditor::read(kFolder);
  CheckpointEditor expanded = editor;
  int count = 0;
  for (const auto& [name, tensor] : expanded.tensors) {
    if (!is_quantizable(name)) continue;
    ++count;
    expanded.tensors[name] =
        quantize_fp8(editor, name, c.block_rows, c.block_columns, c.suffix, c.scale_dtype);
  }
  ASSERT_GT(count, 60);
  editor.config["quantization_config"] = {{"quant_method", "fp8"},
                                          {"fmt", "e4m3"},
                                          {"weight_block_size", {c.block_rows, c.block_columns}}};
  const auto want = logits_of(expanded);
  for (const char* table : {"reference", "auto"}) {
    const double error = relative_l2(logits_of(editor, table), want);
    std::printf("| fp8 %-18s | %-9s | %.1e |\n", c.name, table, error);
    EXPECT_LT(error, 1e-4) << table;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms,
    Fp8,
    ::testing::Values(Fp8Case{"blocks_of_128", 128, 128, "_scale_inv", DType::kF32},
                      Fp8Case{"partial_blocks", 24, 40, "_scale_inv", DType::kF32},
                      Fp8Case{"compressed_tensors", 32, 16, "_scale", DType::kBF16},
                      Fp8Case{"power_of_two", 32, 32, "_scale_inv", DType::kF8E8M0}),
    [](const auto& param_info) { return param_info.param.name; });

TEST(Fp8Scales, OnePerMatrixOrOnePerRowNeedNoDeclaredBlockSize) {
  CheckpointEditor editor = CheckpointEditor::read(kFolder);
  CheckpointEditor expanded = editor;
  bool whole = false;
  for (const auto& [name, tensor] : expanded.tensors) {
    if (!is_quantizable(name)) continue;
    whole = !whole;
    expanded.tensors[name] = quantize_fp8(
        editor, name, whole ? tensor.shape[0] : 1, tensor.shape[1], "_scale", DType::kF32);
    if (whole) editor.tensors[name + "_scale"].shape = {};
  }
  EXPECT_LT(relative_l2(logits_of(editor), logits_of(expanded)), 1e-4);
}

TEST(Fp8Scales, MissingOrMisshapenScalesAreErrorsNeverOne) {
  CheckpointEditor editor = CheckpointEditor::read(kFolder);
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  (void)quantize_fp8(editor, name, 32, 32, "_scale_inv", DType::kF32);
  editor.config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {32, 32}}};
  EXPECT_EQ(error_of(editor), "no error");
  CheckpointEditor broken = editor;
  broken.tensors.erase(name + "_scale_inv");
  EXPECT_THAT(error_of(broken), HasSubstr("neither '" + name + "_scale_inv' nor"));
  broken = editor;
  broken.config["quantization_config"]["weight_block_size"] = {128, 128};
  EXPECT_THAT(error_of(broken), HasSubstr("of quantization_config.weight_block_size, got F32"));
  broken.config.erase("quantization_config");
  EXPECT_THAT(error_of(broken), HasSubstr("weight_block_size is not declared"));
  broken = editor;
  broken.tensors[name + "_scale_inv"].dtype = DType::kI32;
  EXPECT_THAT(error_of(broken), HasSubstr("expected F32, BF16, F16 or F8_E8M0 scales"));
}

// ML-08
TEST(Exclusion, ScalesDecideAndAContradictingListIsAWarning) {
  const auto is_excluded = [](const std::string& entry, const std::string& module) {
    return !excluded_modules({"re:(", "other", entry}, {module}).empty();
  };
  EXPECT_TRUE(is_excluded("model.layers.1.mlp.gate", "model.layers.1.mlp.gate"));
  EXPECT_TRUE(is_excluded("layers.6", "model.layers.6.eh_proj"));
  EXPECT_FALSE(is_excluded("layers.6", "model.layers.60.eh_proj"));
  EXPECT_TRUE(is_excluded("*mlp.gate", "model.layers.1.mlp.gate"));
  EXPECT_FALSE(is_excluded("*gate", "model.layers.0.mlp.up_proj"));
  EXPECT_TRUE(
      is_excluded("re:.*indexer\\.weights_proj$", "model.layers.0.self_attn.indexer.weights_proj"));
  EXPECT_TRUE(is_excluded("re:.*self_attn", "model.layers.0.self_attn.o_proj"));
  EXPECT_FALSE(is_excluded("re:.*self_attn$", "model.layers.0.self_attn.o_proj"));
  EXPECT_FALSE(is_excluded("re:((.*)*)*x$", "model.layers.0.self_attn.o_proj"));  // in no time
  EXPECT_FALSE(is_excluded("re:indexer", "model.layers.0.self_attn.indexer.weights_proj"));

  CheckpointEditor editor = CheckpointEditor::read(kFolder);
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  const EditedTensor meaning = quantize_fp8(editor, name, 32, 32, "_scale_inv", DType::kF32);
  editor.config["quantization_config"] = {{"quant_method", "fp8"},
                                          {"weight_block_size", {32, 32}},
                                          {"ignored_layers", {"re:.*o_proj"}}};
  CheckpointEditor expanded = editor;
  expanded.tensors.erase(name + "_scale_inv");
  expanded.tensors[name] = meaning;
  EXPECT_LT(relative_l2(logits_of(editor), logits_of(expanded)), 1e-4);
  const TempFolder folder;
  editor.write(folder.path());
  const Result<DoctorReport> report = examine_model(folder.path());
  ASSERT_TRUE(report);
  EXPECT_THAT(report->warnings,
              ::testing::Contains(HasSubstr("quantised although the exclude list names them")));
}

// Replaces `name` by packed e2m1 values, e4m3 scales and a multiplier; returns their meaning.
EditedTensor quantize_nvfp4(CheckpointEditor& editor, const std::string& name, bool compressed) {
  const EditedTensor source = editor.tensors.at(name);
  const std::vector<float> values = values_of(source);
  const int64_t rows = source.shape[0];
  const int64_t columns = source.shape[1];
  float amax = 0.0F;
  for (const float v : values) amax = std::max(amax, std::fabs(v));
  // The published file holds the multiplier or its reciprocal; the other side is rounded.
  const float reciprocal = 6.0F * 448.0F / amax;
  const float multiplier = compressed ? 1.0F / reciprocal : amax / (6.0F * 448.0F);
  std::string packed;
  std::string scales;
  std::vector<float> expanded;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t g = 0; g < columns / 16; ++g) {
      const float* group = values.data() + r * columns + 16 * g;
      float largest = 0.0F;
      for (int64_t i = 0; i < 16; ++i) largest = std::max(largest, std::fabs(group[i]));
      const uint8_t code = float_to_e4m3(largest / 6.0F / multiplier);
      const float scale = std::max(e4m3_to_float(code), 0x1p-9F);
      scales += static_cast<char>(float_to_e4m3(scale));
      for (int64_t i = 0; i < 16; i += 2) {
        const uint32_t even = float_to_e2m1(group[i] / (scale * multiplier));
        const uint32_t odd = float_to_e2m1(group[i + 1] / (scale * multiplier));
        packed += static_cast<char>(even | odd << 4);
        expanded.push_back(e2m1_to_float(even) * scale * multiplier);
        expanded.push_back(e2m1_to_float(odd) * scale * multiplier);
      }
    }
  }
  const std::string values_name = compressed ? name + "_packed" : name;
  editor.tensors.erase(name);
  editor.tensors[values_name] = raw_tensor(DType::kU8, {rows, columns / 2}, packed);
  editor.tensors[name + "_scale"] = raw_tensor(DType::kF8E4M3, {rows, columns / 16}, scales);
  if (compressed) {
    editor.tensors[name + "_global_scale"] = f32_tensor({1}, {reciprocal});
    editor.tensors[name.substr(0, name.size() - 6) + "input_global_scale"] = f32_tensor({1}, {3});
  } else {
    editor.tensors[name + "_scale_2"] = f32_tensor({}, {multiplier});
    editor.tensors[name.substr(0, name.size() - 6) + "input_scale"] = f32_tensor({}, {3});
  }
  return f32_tensor(source.shape, expanded);
}

class Nvfp4 : public ::testing::TestWithParam<bool> {};

TEST_P(Nvfp4, LogitsAreThoseOfTheExpandedWeights) {
  const bool compressed = GetParam();
  CheckpointEditor editor = CheckpointEditor::read(kFolder);
  CheckpointEditor expanded = editor;
  for (const auto& [name, tensor] : expanded.tensors) {
    if (!is_quantizable(name)) continue;
    expanded.tensors[name] = quantize_nvfp4(editor, name, compressed);
  }
  const auto want = logits_of(expanded);
  for (const char* table : {"reference", "auto"}) {
    const double error = relative_l2(logits_of(editor, table), want);
    std::printf("| nvfp4 %-16s | %-9s | %.1e |\n",
                compressed ? "compressed_tensors" : "modelopt",
                table,
                error);
    EXPECT_LT(error, 1e-4) << table;
  }
  // Activation scales are known, and everything else was used.
  const TempFolder folder;
  editor.write(folder.path());
  const Result<DoctorReport> report = examine_model(folder.path());
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->problem) << *report->problem;
  EXPECT_TRUE(report->weights.unconsumed.empty()) << report->weights.unconsumed.front();
  EXPECT_EQ(report->weights.skipped.count("activation scale: activations stay f32"), 1U);
}

INSTANTIATE_TEST_SUITE_P(Conventions, Nvfp4, ::testing::Bool());

TEST(Nvfp4Errors, AMissingOrSenselessGlobalScaleIsNamed) {
  CheckpointEditor editor = CheckpointEditor::read(kFolder);
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  (void)quantize_nvfp4(editor, name, false);
  CheckpointEditor broken = editor;
  broken.tensors.erase(name + "_scale_2");
  EXPECT_THAT(error_of(broken), HasSubstr("'" + name + "_scale_2' does not exist"));
  for (const float value : {0.0F, -1.0F, INFINITY, NAN}) {
    broken = editor;
    broken.tensors[name + "_scale_2"] = f32_tensor({}, {value});
    EXPECT_THAT(error_of(broken), HasSubstr("expected a finite number above 0"));
  }
  broken = editor;
  broken.tensors[name + "_scale"].dtype = DType::kU8;
  EXPECT_THAT(error_of(broken), HasSubstr("expected F8_E4M3"));
}

}  // namespace
}  // namespace baton
