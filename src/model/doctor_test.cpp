#include "model/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "model/inspect.h"
#include "model/testing/checkpoint_editor.h"

namespace baton {
namespace {

using testing::CheckpointEditor;
using ::testing::ElementsAre;
using testing::f32_tensor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempFolder;
using testing::write_text;

// The published GLM-5.2 configuration (models.md A.2), without weights.
Json glm_5_2() {
  Json json = *read_json_file("testdata/glm-dsa-list/config.json");
  const std::pair<const char*, Json> values[] = {
      {"vocab_size", 154880},        {"hidden_size", 6144},
      {"intermediate_size", 12288},  {"moe_intermediate_size", 2048},
      {"num_hidden_layers", 78},     {"num_attention_heads", 64},
      {"num_key_value_heads", 64},   {"q_lora_rank", 2048},
      {"kv_lora_rank", 512},         {"qk_nope_head_dim", 192},
      {"qk_rope_head_dim", 64},      {"qk_head_dim", 256},
      {"v_head_dim", 256},           {"head_dim", 192},
      {"n_routed_experts", 256},     {"num_experts_per_tok", 8},
      {"first_k_dense_replace", 3},  {"max_position_embeddings", 1048576},
      {"index_n_heads", 32},         {"index_head_dim", 128},
      {"index_topk", 2048},          {"index_topk_freq", 4},
      {"index_skip_topk_offset", 3}, {"indexer_types", nullptr},
  };
  for (const auto& [key, value] : values) json[key] = value;
  return json;
}

ModelConfig config_of(const Json& json) {
  const TempFolder folder;
  write_text(folder / "config.json", dump_json(json));
  const Result<ModelConfig> config = read_model_config(folder.path());
  EXPECT_TRUE(config) << config.error().message;
  return *config;
}

TEST(Inspect, ParametersOfGlm52AreThePublishedOnes) {
  const ParameterCount count = count_parameters(config_of(glm_5_2()));
  EXPECT_NEAR(static_cast<double>(count.total), 743.38e9, 0.005e9);
  EXPECT_NEAR(static_cast<double>(count.mtp), 9.953e9, 0.0005e9);
  EXPECT_NEAR(static_cast<double>(count.active), 40.3e9, 0.05e9);
  Json all_full = glm_5_2();  // GLM-5: an indexer in every layer
  all_full["index_topk_freq"] = 1;
  EXPECT_NEAR(static_cast<double>(count_parameters(config_of(all_full)).total), 743.91e9, 0.005e9);
}

TEST(Inspect, ParametersOfATinyCheckpointAreThoseInItsFiles) {
  for (const char* name : {"glm-dsa-list", "deepseek-v2", "qwen3", "qwen3-tied", "qwen3-moe"}) {
    const std::string folder = std::string("testdata/") + name;
    const CheckpointEditor editor = CheckpointEditor::read(folder);
    const ModelConfig config = *read_model_config(folder);
    int64_t trunk = 0;
    int64_t mtp = 0;
    for (const auto& [tensor, stored] : editor.tensors) {
      int64_t elements = 1;
      for (const int64_t dim : stored.shape) elements *= dim;
      const std::string layer = "model.layers." + std::to_string(config.num_layers) + ".";
      (tensor.starts_with(layer) ? mtp : trunk) += elements;
    }
    EXPECT_EQ(count_parameters(config).total, trunk) << name;
    EXPECT_EQ(count_parameters(config).mtp, mtp) << name;
  }
}

TEST(Inspect, KvBytesOfTheRealGeometryAreThePublishedRows) {
  const std::vector<KvSize> sizes = kv_sizes(config_of(glm_5_2()));
  ASSERT_EQ(sizes.size(), 4U);
  EXPECT_EQ(sizes[1].name, "bfloat16");
  EXPECT_EQ(sizes[1].row_bytes, 1152);
  EXPECT_EQ(sizes[1].token_bytes, 78 * 1152 + 21 * 256);
  EXPECT_EQ(sizes[2].row_bytes, 656);
  EXPECT_EQ(sizes[2].token_bytes, 78 * 656 + 21 * 132);
  EXPECT_EQ(sizes[3].row_bytes, 352);
  for (const KvSize& size : sizes) EXPECT_EQ(size.block_bytes % 4096, 0) << size.name;
  // Plain rows have no packed formats.
  EXPECT_EQ(kv_sizes(*read_model_config("testdata/qwen3")).size(), 2U);
}

TEST(Inspect, ThePlanAddsUpAndGrowsWithContextAndConcurrency) {
  InspectOptions options{.context_tokens = 1000, .concurrency = 2};
  const Result<InspectReport> small = inspect_model("testdata/glm-dsa-list", options);
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_EQ(small->kv_bytes, 2 * 16 * small->kv[1].block_bytes);
  EXPECT_EQ(small->total_bytes(), small->weights_bytes + small->kv_bytes + small->scratch_bytes);
  options.concurrency = 4;
  EXPECT_EQ(inspect_model("testdata/glm-dsa-list", options)->kv_bytes, 2 * small->kv_bytes);
  options.context_tokens = 4097;
  EXPECT_THAT(inspect_model("testdata/glm-dsa-list", options).error().message,
              HasSubstr("at most max_position_embeddings, 4096, got 4097"));
  EXPECT_FALSE(inspect_model("testdata/no-such-model", options));
  EXPECT_THAT(inspect_text(*small), HasSubstr("fp8_ds_mla"));
  EXPECT_EQ(inspect_json(*small)["memory_plan"]["concurrency"], 2);
}

TEST(Inspect, ThePlanNamesItsRowFormatAlsoWhereTwoHaveTheSameBlocks) {
  CheckpointEditor editor = CheckpointEditor::read("testdata/glm4-moe-lite");
  editor.config["num_hidden_layers"] = 1;
  const TempFolder folder;
  write_text(folder / "config.json", dump_json(editor.config));
  const auto report =
      inspect_model(folder.path(), {.context_tokens = 64, .kv_cache_dtype = KvCacheDtype::kFp8});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->kv[2].block_bytes, report->kv[3].block_bytes);
  EXPECT_EQ(report->kv_format, "fp8_ds_mla");
}

TEST(Inspect, AStepIsAsLongAsSaidHoweverShortTheSequences) {
  const auto report = inspect_model(
      "testdata/qwen3", {.context_tokens = 128, .concurrency = 8, .batched_tokens = 1024});
  ASSERT_TRUE(report) << report.error().message;
  // At least the hidden states, the normed ones and the feed-forward's output.
  EXPECT_GT(report->scratch_bytes, 3 * 1024 * read_model_config("testdata/qwen3")->hidden_size * 4);
}

TEST(Inspect, BytesAreThoseOfTheStoredForms) {
  const auto report = inspect_model("testdata/glm-dsa-fp8-block", {.context_tokens = 64});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->bytes_by_form.at("fp8"), 0);
  EXPECT_GT(report->bytes_by_form.at("bf16"), 0);
  const auto packed = inspect_model("testdata/glm-dsa-nvfp4-ct", {.context_tokens = 64});
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_GT(packed->bytes_by_form.at("nvfp4"), 0);
}

TEST(Doctor, SaysWhatIsDeclaredAndWhatWillBeExecuted) {
  const Result<DoctorReport> report = examine_model("testdata/glm-dsa-list");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->problem);
  EXPECT_THAT(report->full_layers, ElementsAre(0, 1, 4));
  EXPECT_THAT(report->shared_layers, ElementsAre(2, 3, 5));
  EXPECT_THAT(report->dense_layers, ElementsAre(0));
  EXPECT_THAT(report->expert_layers, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(report->weights.unconsumed, IsEmpty());
  EXPECT_EQ(report->weights.skipped.at("MTP layer, not executed yet").size(), 47U);
  EXPECT_THAT(report->warnings, ElementsAre(HasSubstr("contradicts")));
  const std::string text = doctor_text(*report);
  EXPECT_THAT(text, HasSubstr("indexer full        3: 0, 1, 4"));
  EXPECT_THAT(text, HasSubstr("1 layer(s) declared, not executed yet"));
  EXPECT_THAT(doctor_summary(*report), HasSubstr("unconsumed: 0 keys, 0 tensors"));
}

TEST(Doctor, GroupsTensorsByFormAndListsWhatNothingUses) {
  CheckpointEditor editor = CheckpointEditor::read("testdata/glm-dsa-fp8-block");
  editor.config["sliding_gate"] = true;
  editor.tensors["model.layers.0.self_attn.sinks"] = f32_tensor({2}, {1, 2});
  const TempFolder folder;
  editor.write(folder.path(), 2);
  const Result<DoctorReport> report = examine_model(folder.path());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->problem) << *report->problem;
  EXPECT_FALSE(report->clean());
  EXPECT_THAT(report->unconsumed_keys(), ElementsAre("sliding_gate"));
  EXPECT_THAT(report->weights.unconsumed, ElementsAre("model.layers.0.self_attn.sinks"));
  const Json json = doctor_json(*report);
  EXPECT_EQ(json["unconsumed_keys"], Json::array({"sliding_gate"}));
  bool seen = false;
  for (const Json& group : json["tensor_groups"]) {
    if (group["name"] != "model.layers.*.mlp.experts.*.down_proj") continue;
    seen = true;
    EXPECT_TRUE(group["forms"].contains("fp8"));
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(Json::parse(dump_json(json)), json);
}

TEST(Doctor, WorksFromJsonFilesAlone) {
  const TempFolder folder;
  const CheckpointEditor editor = CheckpointEditor::read("testdata/glm-dsa-nvfp4-ct");
  editor.write(folder.path(), 2);
  for (const char* shard :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    std::filesystem::remove(folder / shard);
  }
  Result<DoctorReport> report = examine_model(folder.path());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->files, DoctorReport::Files::kIndexOnly);
  EXPECT_FALSE(report->problem) << *report->problem;
  EXPECT_THAT(report->weights.unconsumed, IsEmpty());
  EXPECT_THAT(doctor_text(*report), HasSubstr("nvfp4 x"));
  std::filesystem::remove(folder / "model.safetensors.index.json");
  report = examine_model(folder.path());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->files, DoctorReport::Files::kNone);
  EXPECT_FALSE(report->problem);
}

TEST(Doctor, NamesAloneShowPackedValuesOfAnotherScheme) {
  const TempFolder folder;
  CheckpointEditor editor = CheckpointEditor::read("testdata/glm-dsa-nvfp4-ct");
  std::erase_if(editor.tensors,
                [](const auto& tensor) { return tensor.first.ends_with("weight_global_scale"); });
  editor.write(folder.path(), 2);
  for (const char* shard :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    std::filesystem::remove(folder / shard);
  }
  const Result<DoctorReport> report = examine_model(folder.path());
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(report->problem);
  EXPECT_THAT(*report->problem, HasSubstr(".weight_global_scale' is missing"));
}

TEST(Doctor, SaysThatDynamicScalingNeverActs) {
  CheckpointEditor editor = CheckpointEditor::read("testdata/qwen3");
  editor.config.erase("rope_parameters");
  editor.config.erase("rope_scaling");
  editor.config["rope_theta"] = 10000;
  editor.config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 4.0}};
  const TempFolder folder;
  write_text(folder / "config.json", dump_json(editor.config));
  EXPECT_THAT(examine_model(folder.path())->rope, HasSubstr("would act beyond the context only"));
}

TEST(Doctor, AFolderThatWouldNotLoadIsAReportWithItsReason) {
  CheckpointEditor editor = CheckpointEditor::read("testdata/qwen3");
  editor.tensors.erase("model.norm.weight");
  const TempFolder folder;
  editor.write(folder.path());
  const Result<DoctorReport> report = examine_model(folder.path());
  ASSERT_TRUE(report);
  ASSERT_TRUE(report->problem);
  EXPECT_THAT(*report->problem, HasSubstr("'model.norm.weight' is missing"));
  EXPECT_THAT(doctor_text(*report), HasSubstr("would not load"));
  EXPECT_FALSE(examine_model("testdata"));
}

}  // namespace
}  // namespace baton
