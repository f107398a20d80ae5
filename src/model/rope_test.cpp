#include "model/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/testing/checkpoint_editor.h"
#include "model/testing/model_harness.h"

namespace baton {
namespace {

// DeepSeek-V3's block: the numbers are those of models.md B.1.
RopeConfig deepseek_v3() {
  return {.type = RopeType::kYarn,
          .theta = 10000.0,
          .factor = 40.0,
          .original_max_position = 4096,
          .mscale = 1.0,
          .mscale_all_dim = 1.0};
}

TEST(Rope, DefaultFrequenciesAreTheBaseToTheMinusTwoIOverWidth) {
  const Rope rope = *make_rope({.theta = 8e6}, 64, 1048576);
  ASSERT_EQ(rope.inv_freq.size(), 32U);
  for (size_t i = 0; i < 32; ++i) {
    const double expected = std::pow(8e6, -2.0 * static_cast<double>(i) / 64.0);
    EXPECT_NEAR(rope.inv_freq[i] / expected, 1.0, 1e-6) << i;
  }
  EXPECT_EQ(rope.attention_factor, 1.0F);
  EXPECT_EQ(rope.score_factor, 1.0F);
}

// Every type against transformers, through config.json. Two cases differ by intent: frequencies do
// not change with the length of one request, as they do there beyond the trained length.
TEST(Rope, FrequenciesAndFactorsAreThoseOfTransformers) {
  const Json cases = (*read_json_file("testdata/rope/golden.json"))["cases"];
  const testing::Golden golden = testing::read_golden("testdata/rope/golden.safetensors");
  int compared = 0;
  for (const Json& item : cases) {
    const auto name = item["name"].get<std::string>();
    if (name == "dynamic_above" || name == "longrope_below") continue;
    Json json = *read_json_file("testdata/qwen3/config.json");
    json.erase("rope_theta");
    json.erase("rope_scaling");
    json["rope_parameters"] = item["rope_parameters"];
    json["head_dim"] = item["qk_rope_head_dim"];
    json["max_position_embeddings"] = item["max_position_embeddings"];
    const testing::TempFolder folder;
    testing::write_text(folder / "config.json", dump_json(json));
    const Result<ModelConfig> config = read_model_config(folder.path());
    ASSERT_TRUE(config) << name << ": " << config.error().message;
    const Rope rope = *make_rope(config->rope, config->head_dim, config->max_position_embeddings);
    const std::vector<float>& want = golden.at(name + ".inverse_frequencies").values;
    ASSERT_EQ(rope.inv_freq.size(), want.size()) << name;
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(rope.inv_freq[i] / want[i], 1.0F, 5e-7F) << name << " " << i;
    }
    EXPECT_NEAR(rope.attention_factor, item["attention_factor"].get<float>(), 1e-6F) << name;
    ++compared;
  }
  EXPECT_GE(compared, 13);
}

TEST(Rope, YarnRampRunsFromDimensionTenToTwentyThree) {
  const YarnRange range = yarn_range(deepseek_v3(), 64);
  EXPECT_EQ(range.low, 10.0);
  EXPECT_EQ(range.high, 23.0);
  const Rope plain = *make_rope({.theta = 10000.0}, 64, 163840);
  const Rope rope = *make_rope(deepseek_v3(), 64, 163840);
  for (size_t i = 0; i <= 10; ++i) EXPECT_EQ(rope.inv_freq[i], plain.inv_freq[i]) << i;
  for (size_t i = 23; i < 32; ++i) {
    EXPECT_FLOAT_EQ(rope.inv_freq[i], plain.inv_freq[i] / 40.0F) << i;
  }
  const double middle = (16.0 - 10.0) / 13.0;
  EXPECT_NEAR(rope.inv_freq[16] / plain.inv_freq[16], 1.0 - middle + middle / 40.0, 1e-6);
}

TEST(Rope, YarnScalesScoresButNotAnglesWhenBothMscalesAreOne) {
  const Rope rope = *make_rope(deepseek_v3(), 64, 163840);
  EXPECT_FLOAT_EQ(rope.attention_factor, 1.0F);
  const double scale = static_cast<double>(rope.score_factor) / std::sqrt(192.0);
  EXPECT_NEAR(scale, 0.135234, 5e-7);
}

TEST(Rope, YarnAttentionFactorComesFromMscalesTheFactorOrTheFile) {
  RopeConfig config = deepseek_v3();
  config.mscale_all_dim = 0.5;
  EXPECT_NEAR(make_rope(config, 64, 1)->attention_factor,
              (0.1 * std::log(40.0) + 1.0) / (0.05 * std::log(40.0) + 1.0),
              1e-6);
  config.mscale = 0.0;
  EXPECT_NEAR(make_rope(config, 64, 1)->attention_factor, 0.1 * std::log(40.0) + 1.0, 1e-6);
  config.attention_factor = 1.25;
  EXPECT_EQ(make_rope(config, 64, 1)->attention_factor, 1.25F);
  // The vendor's V2-Lite block: 0.707 for both.
  config = deepseek_v3();
  config.mscale = config.mscale_all_dim = 0.707;
  EXPECT_NEAR(make_rope(config, 64, 1)->score_factor, 1.58963, 1e-4);
}

TEST(Rope, LinearDividesAndDynamicKeepsWithinTheTrainedLength) {
  const Rope plain = *make_rope({.theta = 10000.0}, 32, 4096);
  const Rope linear =
      *make_rope({.type = RopeType::kLinear, .theta = 10000.0, .factor = 4.0}, 32, 4096);
  const Rope dynamic =
      *make_rope({.type = RopeType::kDynamic, .theta = 10000.0, .factor = 4.0}, 32, 4096);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_FLOAT_EQ(linear.inv_freq[i], plain.inv_freq[i] / 4.0F);
    EXPECT_EQ(dynamic.inv_freq[i], plain.inv_freq[i]);
  }
}

TEST(Rope, Llama3KeepsShortWavelengthsAndDividesLongOnes) {
  const RopeConfig config{.type = RopeType::kLlama3,
                          .theta = 500000.0,
                          .factor = 8.0,
                          .original_max_position = 8192,
                          .low_freq_factor = 1.0,
                          .high_freq_factor = 4.0};
  const Rope plain = *make_rope({.theta = 500000.0}, 128, 131072);
  const Rope rope = *make_rope(config, 128, 131072);
  int between = 0;
  for (size_t i = 0; i < 64; ++i) {
    const double wavelength = 2.0 * M_PI / static_cast<double>(plain.inv_freq[i]);
    if (wavelength < 2048.0) {
      EXPECT_EQ(rope.inv_freq[i], plain.inv_freq[i]) << i;
    } else if (wavelength > 8192.0) {
      EXPECT_FLOAT_EQ(rope.inv_freq[i], plain.inv_freq[i] / 8.0F) << i;
    } else {
      ++between;
      EXPECT_LT(rope.inv_freq[i], plain.inv_freq[i]) << i;
      EXPECT_GT(rope.inv_freq[i], plain.inv_freq[i] / 8.0F) << i;
    }
  }
  EXPECT_GT(between, 0);
}

TEST(Rope, LongropeUsesItsLongFactorsForModelsLongerThanTheOriginalAndChecksTheirNumber) {
  RopeConfig config{.type = RopeType::kLongrope,
                    .theta = 10000.0,
                    .factor = 32.0,
                    .original_max_position = 4096,
                    .short_factor = {1.0, 1.0, 1.0, 1.0},
                    .long_factor = {1.0, 2.0, 4.0, 8.0}};
  const Rope plain = *make_rope({.theta = 10000.0}, 8, 4096);
  const Rope extended = *make_rope(config, 8, 131072);
  const Rope original = *make_rope(config, 8, 4096);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(extended.inv_freq[i],
                    plain.inv_freq[i] / static_cast<float>(config.long_factor[i]));
    EXPECT_EQ(original.inv_freq[i], plain.inv_freq[i]);
  }
  EXPECT_NEAR(extended.attention_factor, std::sqrt(1.0 + std::log(32.0) / std::log(4096.0)), 1e-6);
  config.long_factor.pop_back();
  EXPECT_THAT(make_rope(config, 8, 131072).error().message,
              ::testing::HasSubstr("'long_factor': expected 4 numbers, got 3"));
}

TEST(Rope, ScalingThatGivesNoFiniteNumberIsRefused) {
  RopeConfig config{
      .type = RopeType::kYarn, .theta = 1.0, .factor = 40.0, .original_max_position = 4096};
  EXPECT_THAT(make_rope(config, 64, 163840).error().message, ::testing::HasSubstr("no finite"));
  config = {.type = RopeType::kLongrope,
            .factor = 32.0,
            .original_max_position = 1,  // its logarithm is 0
            .short_factor = {1.0},
            .long_factor = {1.0}};
  EXPECT_THAT(make_rope(config, 2, 131072).error().message, ::testing::HasSubstr("no finite"));
}

}  // namespace
}  // namespace baton
