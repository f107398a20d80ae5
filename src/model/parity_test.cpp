// Answers against transformers: every data flow, the reference and the CPU table, whole prefill,
// chunks and decode; and the CUDA table, eager and replayed from graphs, SKIPPED without a GPU. The
// goldens are f32 runs of the stored weights (testdata/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "model/testing/checkpoint_editor.h"
#include "model/testing/model_harness.h"

namespace baton {
namespace {

using testing::Golden;
using testing::ModelHarness;
using testing::read_golden;
using testing::relative_l2;

constexpr const char* kFolders[] = {
    "glm-dsa-list",
    "glm-dsa-freq",
    "glm-dsa-pattern",
    "glm-dsa-geometry",
    "glm-dsa-ties",
    "glm-dsa-fp8-block",
    "glm-dsa-nvfp4-modelopt",
    "glm-dsa-nvfp4-ct",
    "deepseek-v32",
    "deepseek-v3-yarn",
    "deepseek-v3-moonlight",
    "deepseek-v2",
    "glm4-moe-lite",
    "qwen3",
    "qwen3-tied",
    "qwen3-moe",
};

std::vector<const char*> tables() {
  std::vector<const char*> names = {"reference", "auto"};
  if (cuda_kernels() != nullptr) names.insert(names.end(), {"cuda", "cuda_graph"});
  return names;
}

std::string folder_of(const std::string& name) {
  return "testdata/" + name;
}

LoadOptions exact() {
  LoadOptions options;
  options.kv_cache_dtype = KvCacheDtype::kF32;
  return options;
}

std::unique_ptr<ModelHarness> open(const std::string& name,
                                   const std::string& table,
                                   LoadOptions options) {
  // The goldens expand quantised weights to f32, and so must kv_b_proj be here.
  if (name.find("fp8") != std::string::npos || name.find("nvfp4") != std::string::npos) {
    options.dtype = "float32";
  }
  auto harness = ModelHarness::open(folder_of(name), table, options, 256);
  EXPECT_TRUE(harness) << harness.error().message;
  return harness ? std::move(*harness) : nullptr;
}

class Parity : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    if (!table().starts_with("cuda")) return;
    if (const auto device = open_device("cuda", 0); !device) GTEST_SKIP() << device.error().message;
  }
  // A captured forward pass cannot be looked into.
  bool observed() const { return table() != "cuda_graph"; }
  std::string name() const { return std::get<0>(GetParam()); }
  std::string table() const { return std::get<1>(GetParam()); }
  Golden golden() const { return read_golden(folder_of(name()) + "/golden.safetensors"); }
};

TEST_P(Parity, LogitsMatchTransformersBelowAndAboveTheSelectionSize) {
  const auto harness = open(name(), table(), exact());
  ASSERT_NE(harness, nullptr);
  const Golden want = golden();
  double worst = 0.0;
  for (const std::string prefix : {"", "short."}) {
    harness->restart();
    const auto logits = harness->run(want.at(prefix + "input_ids").ints);
    worst = std::max(worst, relative_l2(logits, want.at(prefix + "logits").values));
  }
  std::printf("| %-22s | %-9s | %.1e |\n", name().c_str(), table().c_str(), worst);
  EXPECT_LT(worst, 1e-4);
}

TEST_P(Parity, HiddenStatesMatchAfterEveryLayer) {
  if (!observed()) GTEST_SKIP() << "a replayed graph shows its logits only";
  const auto harness = open(name(), table(), exact());
  ASSERT_NE(harness, nullptr);
  const Golden want = golden();
  harness->run(want.at("input_ids").ints);
  const auto& at = want.at("hidden_positions").ints;
  const auto width = static_cast<size_t>(harness->model().config().hidden_size);
  for (int64_t layer = 0; layer < harness->model().config().num_layers; ++layer) {
    const auto key = "hidden." + std::to_string(layer);
    const std::vector<float>& all = harness->floats().at(key);
    std::vector<float> rows;
    for (const int32_t p : at) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(p) * width);
      rows.insert(rows.end(), first, first + static_cast<ptrdiff_t>(width));
    }
    EXPECT_LT(relative_l2(rows, want.at(key).values), 1e-4) << key;
  }
}

TEST_P(Parity, FullLayersSelectTheSamePositions) {
  if (!observed()) GTEST_SKIP() << "a replayed graph shows its logits only";
  const auto harness = open(name(), table(), exact());
  ASSERT_NE(harness, nullptr);
  const ModelConfig& config = harness->model().config();
  const Golden want = golden();
  int64_t full_layers = 0;
  for (const std::string prefix : {"", "short."}) {
    harness->restart();
    harness->run(want.at(prefix + "input_ids").ints);
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      const std::string number = std::to_string(layer);
      const auto found = want.find(prefix + "index." + number + ".topk");
      const bool full = config.has_indexer() &&
                        config.indexer_modes[static_cast<size_t>(layer)] == IndexerMode::kFull;
      ASSERT_EQ(found != want.end(), full) << "layer " << layer;
      if (!full) continue;
      ++full_layers;
      const std::vector<int32_t>& got = harness->ints().at("selection." + number);
      const auto tokens = static_cast<size_t>(found->second.shape[0]);
      const auto columns = static_cast<size_t>(found->second.shape[1]);
      const auto top_k = static_cast<size_t>(config.index_top_k);
      for (size_t t = 0; t < tokens; ++t) {
        for (size_t j = 0; j < top_k; ++j) {
          const int32_t expected = j < columns ? found->second.ints[t * columns + j] : -1;
          ASSERT_EQ(got[t * top_k + j], expected) << "layer " << layer << " token " << t;
        }
      }
    }
  }
  EXPECT_EQ(full_layers > 0, config.has_indexer());
}

TEST_P(Parity, ChunksAndDecodeGiveTheBitsOfOnePass) {
  const auto harness = open(name(), table(), exact());
  ASSERT_NE(harness, nullptr);
  const std::vector<int32_t> ids = golden().at("input_ids").ints;
  const std::vector<float> whole = harness->run(ids);
  const std::vector<uint8_t> bytes = harness->kv_bytes();
  const std::vector<std::vector<int64_t>> cuts = {{23, 1, 17},
                                                  {15, 16, 17},
                                                  {63},
                                                  {static_cast<int64_t>(ids.size()) - 1},
                                                  std::vector<int64_t>(ids.size(), 1)};
  for (const auto& chunks : cuts) {
    harness->restart();
    EXPECT_EQ(harness->run_chunks(ids, chunks), whole) << "first chunk " << chunks.front();
    EXPECT_EQ(harness->kv_bytes(), bytes) << "first chunk " << chunks.front();
  }
}

TEST_P(Parity, GreedyDecodingGivesTheSameTokens) {
  const auto harness = open(name(), table(), exact());
  ASSERT_NE(harness, nullptr);
  const Golden want = golden();
  const auto vocab = static_cast<ptrdiff_t>(harness->model().config().vocab_size);
  std::vector<float> logits = harness->run(want.at("greedy.prompt_ids").ints);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < want.at("greedy.ids").ints.size(); ++i) {
    const auto best = std::max_element(logits.end() - vocab, logits.end());
    tokens.push_back(static_cast<int32_t>(best - (logits.end() - vocab)));
    logits = harness->run({&tokens.back(), 1});
  }
  EXPECT_EQ(tokens, want.at("greedy.ids").ints);
}

INSTANTIATE_TEST_SUITE_P(AllFlows,
                         Parity,
                         ::testing::Combine(::testing::ValuesIn(kFolders),
                                            ::testing::ValuesIn(tables())),
                         [](const auto& param_info) {
                           std::string name = std::string(std::get<0>(param_info.param)) + "_" +
                                              std::get<1>(param_info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// models.md A.4: both values of the latent norms' eps, on latents so small that it shows.
TEST(LatentNormEps, BothValuesMatchAndTheyDiffer) {
  const std::string name = "glm-dsa-freq";
  testing::CheckpointEditor editor = testing::CheckpointEditor::read(folder_of(name));
  editor.config["mla_latent_norm_eps"] = 1e-5;
  const testing::TempFolder folder;
  editor.write(folder.path());
  auto harness = ModelHarness::open(folder.path(), "auto", exact(), 256);
  ASSERT_TRUE(harness) << harness.error().message;
  const Golden want = read_golden(folder_of(name) + "/golden.safetensors");
  const auto logits = (*harness)->run(want.at("input_ids").ints);
  EXPECT_LT(relative_l2(logits, want.at("config_eps.logits").values), 1e-4);
  EXPECT_GT(relative_l2(logits, want.at("logits").values), 1e-2);
}

// LC-11: the smaller the chunk the worse, elsewhere. Here logits and every stored byte are the
// same.
TEST(Chunks, FiveHundredTokensInAnyChunksGiveTheSameBits) {
  auto harness = ModelHarness::open(folder_of("glm-dsa-list"), "auto", exact(), 512);
  ASSERT_TRUE(harness) << harness.error().message;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 500; ++i) ids.push_back((i * i + 31 * i) % 250);
  const auto whole = (*harness)->run(ids);
  const auto bytes = (*harness)->kv_bytes();
  for (const int64_t chunk : {1, 15, 16, 17, 64, 100, 499, 512}) {
    (*harness)->restart();
    const auto logits = (*harness)->run_chunks(ids, std::vector<int64_t>(500, chunk));
    EXPECT_TRUE(logits == whole) << chunk;
    EXPECT_TRUE((*harness)->kv_bytes() == bytes) << chunk;
  }
}

// LC-06: the golden of each model type fails with the other layout, and the latent attention does
// not follow the indexer's flag.
TEST(IndexerRotaryLayout, TheWrongLayoutIsNoticed) {
  for (const auto& [name, right] :
       {std::pair{"glm-dsa-freq", true}, std::pair{"deepseek-v32", false}}) {
    const Golden want = read_golden(folder_of(name) + "/golden.safetensors");
    for (const bool declared : {true, false}) {
      testing::CheckpointEditor editor = testing::CheckpointEditor::read(folder_of(name));
      editor.config["indexer_rope_interleave"] = declared;
      const testing::TempFolder folder;
      editor.write(folder.path());
      auto harness = ModelHarness::open(folder.path(), "auto", exact(), 256);
      ASSERT_TRUE(harness) << harness.error().message;
      const auto logits = (*harness)->run(want.at("input_ids").ints);
      const double error = relative_l2(logits, want.at("logits").values);
      if (declared == right) {
        EXPECT_LT(error, 1e-4) << name;
      } else {
        EXPECT_GT(error, 1e-2) << name;
      }
      // Below the selection size nothing is dropped, so the layout cannot matter.
      (*harness)->restart();
      const auto few = (*harness)->run(want.at("short.input_ids").ints);
      EXPECT_LT(relative_l2(few, want.at("short.logits").values), 1e-4) << name;
    }
  }
}

// bf16 weights and bf16 rows against a bf16 run of transformers, at the positions where rounding
// changed no choice of tokens or experts there. The two differ by that run's own bf16 activations.
TEST(Bf16, LogitsAreNearABf16RunOfTransformers) {
  for (const char* name : {"qwen3", "deepseek-v3-yarn", "glm-dsa-list"}) {
    const Golden want = read_golden(folder_of(name) + "/golden.safetensors");
    auto harness = ModelHarness::open(folder_of(name), "auto", {}, 256);
    ASSERT_TRUE(harness) << harness.error().message;
    const auto logits = (*harness)->run(want.at("input_ids").ints);
    const auto& same = want.at("bf16.same_choices").ints;
    const size_t vocab = logits.size() / same.size();
    std::vector<float> got, theirs, exact_rows;
    for (size_t i = 0; i < same.size(); ++i) {
      if (same[i] == 0) continue;
      for (size_t v = i * vocab; v < (i + 1) * vocab; ++v) {
        got.push_back(logits[v]);
        theirs.push_back(want.at("bf16.logits").values[v]);
        exact_rows.push_back(want.at("logits").values[v]);
      }
    }
    const double to_bf16 = relative_l2(got, theirs);
    const double to_f32 = relative_l2(got, exact_rows);
    const double their_error = relative_l2(theirs, exact_rows);
    std::printf("| %-22s | bf16 rows | to f32 %.1e | transformers bf16 to f32 %.1e |\n",
                name,
                to_f32,
                their_error);
    EXPECT_LT(to_f32, 2e-2) << name;
    EXPECT_LT(to_f32, their_error) << name;
    EXPECT_LT(to_bf16, 2.0 * their_error) << name;
  }
}

}  // namespace
}  // namespace baton
