#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "model/testing/checkpoint_editor.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempFolder;
using testing::write_text;

Json config_of(const std::string& name) {
  return *read_json_file("testdata/" + name + "/config.json");
}

Result<ModelConfig> read(const Json& config) {
  const TempFolder folder;
  write_text(folder / "config.json", dump_json(config));
  return read_model_config(folder.path());
}

std::string error_of(const Json& config) {
  const Result<ModelConfig> result = read(config);
  return result ? "no error" : result.error().message;
}

KeyFate fate(const ModelConfig& config, const std::string& key) {
  for (const LedgerEntry& entry : config.ledger) {
    if (entry.key == key) return entry.fate;
  }
  ADD_FAILURE() << "no key " << key;
  return KeyFate::kUnconsumed;
}

std::vector<int64_t> full_layers(const ModelConfig& config) {
  std::vector<int64_t> layers;
  for (size_t i = 0; i < config.indexer_modes.size(); ++i) {
    if (config.indexer_modes[i] == IndexerMode::kFull) layers.push_back(static_cast<int64_t>(i));
  }
  return layers;
}

constexpr const char* kFolders[] = {"glm-dsa-list",
                                    "glm-dsa-freq",
                                    "glm-dsa-pattern",
                                    "glm-dsa-geometry",
                                    "glm-dsa-ties",
                                    "deepseek-v32",
                                    "deepseek-v3-yarn",
                                    "deepseek-v3-moonlight",
                                    "deepseek-v2",
                                    "glm4-moe-lite",
                                    "qwen3",
                                    "qwen3-tied",
                                    "qwen3-moe"};

TEST(Config, EveryFamilyIsReadAndNoKeyIsLeftUnconsumed) {
  for (const char* name : kFolders) {
    const Result<ModelConfig> config = read_model_config(std::string("testdata/") + name);
    ASSERT_TRUE(config) << config.error().message;
    for (const LedgerEntry& entry : config->ledger) {
      EXPECT_NE(entry.fate, KeyFate::kUnconsumed) << name << ": " << entry.key;
      EXPECT_EQ(entry.reason.empty(), entry.fate != KeyFate::kIrrelevant) << entry.key;
    }
  }
  EXPECT_TRUE(read_model_config("models/baton-mini"));
}

TEST(Config, AKeyThatNobodyReadsIsUnconsumedAlsoInsideAnObject) {
  Json json = config_of("glm-dsa-list");
  json["attention_sinks"] = 4;
  json["rope_parameters"]["wobble"] = 0.5;
  json["engram"] = {{"depth", 2}, {"width", {1, 2}}};
  const Result<ModelConfig> config = read(json);
  ASSERT_TRUE(config);
  for (const char* key :
       {"attention_sinks", "rope_parameters.wobble", "engram.depth", "engram.width"}) {
    EXPECT_EQ(fate(*config, key), KeyFate::kUnconsumed) << key;
  }
  EXPECT_EQ(fate(*config, "rope_parameters.rope_theta"), KeyFate::kUsed);
  EXPECT_EQ(fate(*config, "head_dim"), KeyFate::kIrrelevant);
}

TEST(Config, TheScheduleOfTheReleasedModelHasTheRightPositions) {
  // Not only 21 full layers: a wrong rule gives 21 at 0, 1, 5, 9, ...
  std::vector<int64_t> expected = {0, 1};
  for (int64_t i = 2; i < 78; i += 4) expected.push_back(i);
  ModelConfig config;
  config.indexer_modes = indexer_modes_from_schedule(78, 4, 3);
  EXPECT_EQ(full_layers(config), expected);
  EXPECT_EQ(expected.size(), 21U);
  config.indexer_modes = indexer_modes_from_schedule(78, 1, 2);
  EXPECT_EQ(full_layers(config).size(), 78U);
}

// LC-12 (a), (b), (d), (e), (f)
TEST(Config, IndexerTypesWinOverPatternWinsOverFrequency) {
  Json json = config_of("glm-dsa-freq");
  json["num_hidden_layers"] = 12;
  json["index_topk_freq"] = 4;
  json["index_skip_topk_offset"] = 3;
  EXPECT_EQ(full_layers(*read(json)), (std::vector<int64_t>{0, 1, 2, 6, 10}));
  json["index_topk_pattern"] = "FSFSFSFSFSFS";
  EXPECT_EQ(full_layers(*read(json)), (std::vector<int64_t>{0, 2, 4, 6, 8, 10}));
  EXPECT_THAT(read(json)->warnings, ::testing::ElementsAre(HasSubstr("contradicts")));
  json["index_topk_pattern"] = {"full",
                                "shared",
                                "full",
                                "shared",
                                "full",
                                "shared",
                                "full",
                                "shared",
                                "full",
                                "shared",
                                "full",
                                "shared"};
  EXPECT_EQ(full_layers(*read(json)), (std::vector<int64_t>{0, 2, 4, 6, 8, 10}));
  json["indexer_types"] = Json::array();
  for (int i = 0; i < 12; ++i) json["indexer_types"].push_back(i < 2 ? "full" : "shared");
  EXPECT_EQ(full_layers(*read(json)), (std::vector<int64_t>{0, 1}));
  json["indexer_types"] = nullptr;
  EXPECT_EQ(full_layers(*read(json)), (std::vector<int64_t>{0, 2, 4, 6, 8, 10}));
  for (const char* key : {"index_topk_pattern", "index_topk_freq", "index_skip_topk_offset"}) {
    json.erase(key);
  }
  EXPECT_EQ(full_layers(*read(json)).size(), 12U);
}

TEST(Config, ALayerZeroThatSharesAndListsOfTheWrongLengthAreErrors) {
  Json json = config_of("glm-dsa-list");
  json["indexer_types"][0] = "shared";
  EXPECT_THAT(error_of(json), HasSubstr("'indexer_types': expected layer 0 to be full"));
  json["indexer_types"] = {"full", "shared"};
  EXPECT_THAT(error_of(json), HasSubstr("one entry for each of the 6 layers, not 2"));
  json["indexer_types"] = {"full", "half", "full", "full", "full", "full"};
  EXPECT_THAT(error_of(json), HasSubstr("only 'full' (F) and 'shared' (S)"));
  json.erase("indexer_types");
  json["index_topk_pattern"] = "FFXFFF";
  EXPECT_THAT(error_of(json), HasSubstr("index_topk_pattern"));
}

// LC-06: the default belongs to the model type, and the main attention does not follow it.
TEST(Config, TheIndexersRotaryLayoutFollowsTheModelTypeUnlessItIsDeclared) {
  for (const auto& [name, interleaved] :
       {std::pair{"glm-dsa-freq", true}, std::pair{"deepseek-v32", false}}) {
    Json json = config_of(name);
    json.erase("indexer_rope_interleave");
    EXPECT_EQ(read(json)->indexer_rope_interleave, interleaved) << name;
    for (const bool declared : {true, false}) {
      json["indexer_rope_interleave"] = declared;
      EXPECT_EQ(read(json)->indexer_rope_interleave, declared) << name;
      EXPECT_TRUE(read(json)->rope_interleave) << name;
    }
  }
}

// LC-09
TEST(Config, EverySpellingOfRopeScalingMeansTheSame) {
  const Json base = config_of("deepseek-v3-yarn");
  const RopeConfig expected = read(base)->rope;
  EXPECT_EQ(expected.type, RopeType::kYarn);
  EXPECT_EQ(expected.original_max_position, 64);
  Json renamed = base;
  renamed["rope_scaling"]["rope_type"] = "yarn";
  renamed["rope_scaling"].erase("type");
  Json inside = base;
  inside["rope_parameters"] = base["rope_scaling"];
  inside["rope_parameters"]["rope_theta"] = base["rope_theta"];
  inside.erase("rope_scaling");
  inside.erase("rope_theta");
  Json both = inside;
  both["rope_theta"] = base["rope_theta"];
  Json outside = base;  // the original length beside the scaling
  outside["rope_scaling"].erase("original_max_position_embeddings");
  outside["original_max_position_embeddings"] = 64;
  for (const Json& json : {renamed, inside, both, outside}) {
    const Result<ModelConfig> config = read(json);
    ASSERT_TRUE(config) << config.error().message;
    const RopeConfig& rope = config->rope;
    EXPECT_EQ(rope.type, expected.type);
    EXPECT_EQ(rope.theta, expected.theta);
    EXPECT_EQ(rope.factor, expected.factor);
    EXPECT_EQ(rope.original_max_position, expected.original_max_position);
    EXPECT_EQ(rope.mscale, expected.mscale);
    EXPECT_EQ(rope.mscale_all_dim, expected.mscale_all_dim);
  }
  Json none = base;
  none["rope_scaling"] = nullptr;
  EXPECT_EQ(read(none)->rope.type, RopeType::kDefault);
}

TEST(Config, RopeScalingThatCannotBeUnderstoodNamesItsKey) {
  Json json = config_of("deepseek-v3-yarn");
  json["rope_scaling"]["type"] = "foo";
  EXPECT_THAT(error_of(json), HasSubstr("'rope_scaling.type': expected one of default, linear"));
  json = config_of("deepseek-v3-yarn");
  json["rope_scaling"].erase("original_max_position_embeddings");
  EXPECT_THAT(error_of(json),
              HasSubstr("'rope_scaling.original_max_position_embeddings' is missing"));
  json = config_of("deepseek-v3-yarn");
  json["rope_scaling"]["factor"] = -4;
  EXPECT_THAT(error_of(json), HasSubstr("'rope_scaling.factor': expected a number in 1.."));
  json = config_of("deepseek-v3-yarn");
  json.erase("rope_theta");
  EXPECT_THAT(error_of(json), HasSubstr("'rope_theta' is missing"));
  json["rope_theta"] = 10000;
  json["rope_scaling"]["rope_theta"] = 20000;
  EXPECT_THAT(error_of(json), HasSubstr("'rope_theta'"));
  json = config_of("deepseek-v3-yarn");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000}};
  EXPECT_THAT(error_of(json), HasSubstr("contradict"));
  json = config_of("qwen3");
  json["partial_rotary_factor"] = 0.5;
  EXPECT_THAT(error_of(json), HasSubstr("partial_rotary_factor"));
}

TEST(Config, HeadDimAndPartialRotaryFactorNeverSizeTheRotationOfLatentModels) {
  Json json = config_of("glm-dsa-list");
  json["head_dim"] = 192;
  json["partial_rotary_factor"] = 0.5;
  json["rope_parameters"]["partial_rotary_factor"] = 0.5;
  const Result<ModelConfig> config = read(json);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->qk_rope_head_dim, 8);
  EXPECT_EQ(fate(*config, "rope_parameters.partial_rotary_factor"), KeyFate::kIrrelevant);
}

// ML-13
TEST(Config, BothSpellingsOfTheDtypeAreReadAndAnUnknownOneIsAWarning) {
  Json json = config_of("qwen3");
  json.erase("torch_dtype");
  json.erase("dtype");
  EXPECT_EQ(read(json)->dtype, "auto");
  for (const char* key : {"dtype", "torch_dtype"}) {
    for (const char* value : {"float32", "torch.float32"}) {
      Json one = json;
      one[key] = value;
      EXPECT_EQ(read(one)->dtype, "float32");
      EXPECT_THAT(read(one)->warnings, IsEmpty());
    }
    Json odd = json;
    odd[key] = "float8";
    EXPECT_EQ(read(odd)->dtype, "auto");
    EXPECT_THAT(read(odd)->warnings, ::testing::ElementsAre(HasSubstr("float8")));
    odd[key] = 16;
    EXPECT_THAT(error_of(odd), HasSubstr("expected a string, got 16"));
  }
}

// NU-01
TEST(Config, AnUnknownModelTypeIsOneLineWithVersionListAndNearest) {
  Json json = config_of("glm-dsa-list");
  json["model_type"] = "glm4_moe";
  const std::string message = error_of(json);
  EXPECT_THAT(message, HasSubstr("model_type 'glm4_moe' is not supported by baton 0."));
  EXPECT_THAT(message, HasSubstr("supported: glm_moe_dsa, deepseek_v32"));
  EXPECT_THAT(message, HasSubstr("nearest: glm4_moe_lite"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  json["model_type"] = "unknown_x";
  EXPECT_THAT(error_of(json), HasSubstr("'unknown_x'"));
  json.erase("model_type");  // then the architecture decides
  EXPECT_EQ(read(json)->model_type, "glm_moe_dsa");
  json["architectures"] = {"GlmMoeDsaForCausalML"};
  EXPECT_THAT(error_of(json), HasSubstr("architecture 'GlmMoeDsaForCausalML'"));
  json.erase("architectures");
  EXPECT_THAT(error_of(json), HasSubstr("'model_type' and 'architectures' are missing"));
  json["model_type"] = 7;
  EXPECT_THAT(error_of(json), HasSubstr("'model_type': expected a string, got 7"));
}

TEST(Config, WrongTypesAndRangesNameKeyExpectedAndGot) {
  struct Case {
    const char* folder;
    const char* key;
    Json value;
    const char* message;
  };
  const Case cases[] = {
      {"glm-dsa-list", "hidden_size", "wide", "expected an integer in 1.."},
      {"glm-dsa-list", "hidden_size", 0, "got 0"},
      {"glm-dsa-list", "hidden_size", -64, "got -64"},
      {"glm-dsa-list", "hidden_size", 64.5, "got 64.5"},
      {"glm-dsa-list", "hidden_size", 1e30, "expected an integer"},
      {"glm-dsa-list", "hidden_size", nullptr, "is missing"},
      {"glm-dsa-list", "num_hidden_layers", 1000000, "in 1..4096"},
      {"glm-dsa-list", "rms_norm_eps", "tiny", "expected a number"},
      {"glm-dsa-list", "tie_word_embeddings", 1, "expected true or false"},
      {"glm-dsa-list", "hidden_act", "gelu", "one of 'silu'"},
      {"glm-dsa-list", "mlp_bias", true, "not supported"},
      {"glm-dsa-list", "scoring_func", "softmax", "one of 'sigmoid'"},
      {"glm-dsa-list", "num_experts_per_tok", 9, "at most the number of experts, 8"},
      {"glm-dsa-list", "qk_rope_head_dim", 7, "even"},
      {"glm-dsa-list", "qk_head_dim", 25, "qk_nope_head_dim + qk_rope_head_dim"},
      {"glm-dsa-list", "index_head_dim", 4, "at least qk_rope_head_dim"},
      {"glm-dsa-list", "q_lora_rank", nullptr, "the query latent that the indexer reads"},
      {"glm-dsa-list", "rope_parameters", "default", "expected an object"},
      {"glm-dsa-list", "mlp_layer_types", Json::array({"dense"}), "each of the 6 layers"},
      {"glm-dsa-list", "eos_token_id", "end", "expected an integer"},
      {"glm-dsa-list", "eos_token_id", Json::array({1, "x"}), "a list of integers"},
      {"glm-dsa-list",
       "quantization_config",
       {{"quant_method", "gptq"}},
       "quant_method': expected"},
      {"deepseek-v3-yarn", "n_group", 3, "a divisor of the 8 experts"},
      {"deepseek-v3-yarn", "topk_group", 5, "at most n_group, 4"},
      {"qwen3", "num_key_value_heads", 3, "a divisor of num_attention_heads"},
      {"qwen3", "use_sliding_window", true, "sliding windows are not supported"},
      {"qwen3-moe", "mlp_only_layers", Json::array({-1}), "a list of integers"},
      {"deepseek-v2", "topk_method", "noaux_tc", "'greedy', 'group_limited_greedy'"},
  };
  for (const Case& c : cases) {
    Json json = config_of(c.folder);
    json[c.key] = c.value;
    const std::string message = error_of(json);
    EXPECT_THAT(message, HasSubstr(c.message)) << c.key;
    EXPECT_THAT(message, HasSubstr("config.json")) << c.key;
    EXPECT_EQ(message.find('\n'), std::string::npos) << c.key;
  }
}

TEST(Config, ExpertLayersComeFromEverySpelling) {
  Json json = config_of("glm-dsa-list");
  EXPECT_EQ(read(json)->moe_layers, (std::vector<bool>{false, true, true, true, true, true}));
  json["mlp_layer_types"] = {"dense", "sparse", "dense", "sparse", "dense", "sparse"};
  EXPECT_EQ(read(json)->moe_layers, (std::vector<bool>{false, true, false, true, false, true}));
  json = config_of("qwen3-moe");
  json["num_hidden_layers"] = 4;
  json["mlp_only_layers"] = {2};
  EXPECT_EQ(read(json)->moe_layers, (std::vector<bool>{true, true, false, true}));
  json["decoder_sparse_step"] = 2;
  json["mlp_only_layers"] = Json::array();
  EXPECT_EQ(read(json)->moe_layers, (std::vector<bool>{false, true, false, true}));
}

TEST(Config, AListOfLayerTypesThatContradictsTheCountsIsAWarning) {
  Json json = config_of("glm4-moe-lite");
  json["num_hidden_layers"] = 3;
  json["first_k_dense_replace"] = 1;
  json["mlp_layer_types"] = {"dense", "sparse", "sparse"};
  EXPECT_THAT(read(json)->warnings, IsEmpty());
  json["mlp_layer_types"] = {"dense", "dense", "sparse"};
  const Result<ModelConfig> config = read(json);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->moe_layers, (std::vector<bool>{false, false, true}));
  ASSERT_EQ(config->warnings.size(), 1U);
  EXPECT_THAT(config->warnings.front(), HasSubstr("'mlp_layer_types' contradicts"));
}

TEST(Config, TwoSpellingsOfOneKeyMustAgree) {
  Json json = config_of("glm-dsa-list");
  json["num_experts"] = json["n_routed_experts"];
  EXPECT_TRUE(read(json));
  json["num_experts"] = 16;
  EXPECT_THAT(error_of(json),
              HasSubstr("key 'num_experts': expected the value of 'n_routed_experts', 8, got 16"));
  json.erase("num_experts");
  json["rope_parameters"]["type"] = "yarn";
  EXPECT_THAT(error_of(json), HasSubstr("expected the value of 'rope_parameters.rope_type'"));
}

TEST(Config, NoSizeIsBeyondWhatTheKernelsCount) {
  Json json = config_of("glm-dsa-list");
  json["max_position_embeddings"] = int64_t{1} << 31;
  EXPECT_THAT(error_of(json), HasSubstr("an integer in 1..2147483647, got 2147483648"));
}

TEST(Config, SizesWhoseProductsOverflowAreRefused) {
  Json json = config_of("glm-dsa-list");
  json["kv_lora_rank"] = int64_t{1} << 30;
  json["hidden_size"] = int64_t{1} << 30;
  EXPECT_THAT(error_of(json), HasSubstr("matrices of up to 1073741832 rows and columns"));
  json = config_of("qwen3-moe");
  json["num_experts"] = 65536;
  json["num_hidden_layers"] = 4096;
  json.erase("layer_types");
  json.erase("mlp_only_layers");
  EXPECT_THAT(error_of(json), HasSubstr("more than any machine holds"));
}

TEST(Config, TheLatentNormEpsIsOneInAMillionUnlessItIsGiven) {
  Json json = config_of("glm-dsa-list");
  EXPECT_FLOAT_EQ(read(json)->latent_norm_eps, 1e-6F);
  EXPECT_FLOAT_EQ(read(json)->rms_norm_eps, 1e-5F);
  json["mla_latent_norm_eps"] = 1e-5;
  EXPECT_FLOAT_EQ(read(json)->latent_norm_eps, 1e-5F);
}

TEST(Config, EosIdsOfBothFilesAreUnited) {
  const TempFolder folder;
  Json json = config_of("qwen3");
  json["eos_token_id"] = 490;
  write_text(folder / "config.json", dump_json(json));
  write_text(folder / "generation_config.json",
             R"({"eos_token_id": [497, 490], "temperature": 0.5, "top_k": 20, "pad_token_id": 3})");
  const Result<ModelConfig> config = read_model_config(folder.path());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->eos_token_ids, (std::vector<int32_t>{497, 490}));
  EXPECT_EQ(config->temperature, 0.5F);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_EQ(config->pad_token_id, 3);
  write_text(folder / "generation_config.json", R"({"temperature": "hot"})");
  EXPECT_THAT(read_model_config(folder.path()).error().message,
              HasSubstr("generation_config.json: key 'temperature': expected a number"));
}

TEST(Config, QuantisationIsReadInEveryForm) {
  Json json = config_of("glm-dsa-list");
  json["quantization_config"] = {{"quant_method", "fp8"},
                                 {"fmt", "e4m3"},
                                 {"activation_scheme", "dynamic"},
                                 {"weight_block_size", {128, 64}},
                                 {"modules_to_not_convert", {"lm_head"}}};
  Result<ModelConfig> config = read(json);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->quantization.block_rows, 128);
  EXPECT_EQ(config->quantization.block_columns, 64);
  EXPECT_EQ(config->quantization.excluded, (std::vector<std::string>{"lm_head"}));
  EXPECT_EQ(fate(*config, "quantization_config.activation_scheme"), KeyFate::kIrrelevant);
  json["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", "float-quantized"},
      {"config_groups",
       {{"group_0",
         {{"targets", {"Linear"}},
          {"weights", {{"num_bits", 8}, {"strategy", "block"}, {"block_structure", {32, 16}}}}}}}},
      {"ignore", {"re:.*gate$"}}};
  config = read(json);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->quantization.block_rows, 32);
  EXPECT_EQ(fate(*config, "quantization_config.config_groups.group_0.weights.num_bits"),
            KeyFate::kIrrelevant);

  // What a checkpoint of mixed forms declares per layer; the row format of its cache.
  json["quantization_config"] = {
      {"quant_method", "modelopt"},
      {"quant_algo", "MIXED_PRECISION"},
      {"quantized_layers", {{"model.layers.1.mlp.experts.0.up_proj", {{"quant_algo", "NVFP4"}}}}},
      {"kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}}}};
  config = read(json);
  ASSERT_TRUE(config) << config.error().message;
  for (const LedgerEntry& entry : config->ledger) {
    if (!entry.key.starts_with("quantization_config.")) continue;
    EXPECT_NE(entry.fate, KeyFate::kUnconsumed) << entry.key;
    if (entry.key.find("kv_cache_scheme") != std::string::npos) {
      EXPECT_THAT(entry.reason, HasSubstr("--kv-cache-dtype")) << entry.key;
    }
  }

  json.erase("quantization_config");
  const TempFolder folder;
  write_text(folder / "config.json", dump_json(json));
  write_text(folder / "hf_quant_config.json",
             R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4",
                 "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head*"]}})");
  config = read_model_config(folder.path());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->quantization.method, "modelopt");
  EXPECT_EQ(config->quantization.excluded, (std::vector<std::string>{"lm_head*"}));
}

TEST(Config, FoldersAndFilesThatAreNotThereOrNotJsonAreNamed) {
  EXPECT_THAT(read_model_config("no/such/folder").error().message,
              HasSubstr("no/such/folder: expected a model folder, found nothing"));
  EXPECT_THAT(read_model_config("testdata/README.md").error().message, HasSubstr("got a file"));
  const TempFolder folder("ünïcode and spaces");
  EXPECT_THAT(read_model_config(folder.path()).error().message, HasSubstr("config.json"));
  write_text(folder / "config.json", "{\"model_type\": ");
  EXPECT_THAT(read_model_config(folder.path()).error().message, HasSubstr("not valid JSON"));
  write_text(folder / "config.json", "[]");
  EXPECT_THAT(read_model_config(folder.path()).error().message,
              HasSubstr("expected a JSON object"));
  write_text(folder / "config.json", "");
  EXPECT_FALSE(read_model_config(folder.path()));
}

TEST(Config, StopTokensOutsideTheVocabularyAreRefused) {
  Json json = config_of("qwen3");
  json["eos_token_id"] = {1, json["vocab_size"]};
  EXPECT_THAT(error_of(json), HasSubstr("'eos_token_id' here or in generation_config.json"));
  const TempFolder folder;
  write_text(folder / "config.json", dump_json(config_of("qwen3")));
  write_text(folder / "generation_config.json", R"({"eos_token_id": 2147483647})");
  EXPECT_THAT(read_model_config(folder.path()).error().message, HasSubstr("got 2147483647"));
}

// A file that is there but cannot be read is not a file that is absent.
TEST(Config, OptionalFilesThatCannotBeReadAreNamed) {
  for (const char* name : {"generation_config.json", "hf_quant_config.json"}) {
    for (const char* target : {"gone", name, "/dev/zero"}) {
      const TempFolder folder;
      write_text(folder / "config.json", dump_json(config_of("qwen3")));
      std::filesystem::create_symlink(target, folder / name);
      const Result<ModelConfig> config = read_model_config(folder.path());
      ASSERT_FALSE(config) << name << " -> " << target;
      EXPECT_THAT(config.error().message, HasSubstr(name));
    }
  }
}

// Whatever a config says, reading it ends in a config or in one line.
TEST(Config, RandomMutationsNeverCrash) {
  std::mt19937 random(7);
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const Json odd[] = {nullptr,
                      true,
                      -1,
                      0,
                      1e300,
                      "",
                      "x",
                      Json::array(),
                      Json::object(),
                      Json::array({1, "x", nullptr}),
                      9223372036854775807LL,
                      0.5,
                      3,
                      Json::object({{"type", "yarn"}})};
  std::vector<Json> sound;
  for (const char* name : kFolders) sound.push_back(config_of(name));
  const TempFolder folder;
  int errors = 0;
  for (int round = 0; round < 2000; ++round) {
    Json json = sound[pick(sound.size())];
    for (size_t edit = 0; edit <= pick(3); ++edit) {
      Json* at = &json;
      auto key = std::next(at->begin(), static_cast<ptrdiff_t>(pick(at->size())));
      if (key->is_object() && !key->empty() && pick(2) == 0) {
        at = &*key;
        key = std::next(at->begin(), static_cast<ptrdiff_t>(pick(at->size())));
      }
      *key = odd[pick(std::size(odd))];
    }
    write_text(folder / "config.json", dump_json(json));
    const Result<ModelConfig> config = read_model_config(folder.path());
    if (config) continue;
    ++errors;
    ASSERT_FALSE(config.error().message.empty());
    ASSERT_EQ(config.error().message.find('\n'), std::string::npos) << config.error().message;
  }
  EXPECT_GT(errors, 300);
}

}  // namespace
}  // namespace baton
