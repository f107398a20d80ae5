#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kv_cache/row_formats/index_page.h"
#include "kv_cache/row_formats/latent_row.h"
#include "kv_cache/row_formats/plain_row.h"

namespace baton {
namespace {

std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

TEST(LatentRow, HasTheSizesOfTheFormatsInTheField) {
  EXPECT_EQ(latent_row_bytes({LatentRowFormat::kBF16, 512, 64}), 1152);
  EXPECT_EQ(latent_row_bytes({LatentRowFormat::kFp8, 512, 64}), 656);
  EXPECT_EQ(latent_row_bytes({LatentRowFormat::kNvfp4, 512, 64}), 352);
  EXPECT_EQ(index_page_bytes({IndexKeyFormat::kFp8, 128}), 8448);
}

TEST(LatentRow, Nvfp4ScalesAreTransposedAsInTheVllmRow) {
  const LatentRow row{LatentRowFormat::kNvfp4, 512, 64};
  for (int32_t b = 0; b < 32; ++b) {
    EXPECT_EQ(nvfp4_scale_offset(row, b), 320 + 8 * (b % 4) + b / 4);
  }
}

// Relative L2 error of decode(encode(x)) stays within the format's step.
void check_round_trip(const LatentRow& row, double latent_bound, double rope_bound) {
  const std::vector<float> latent = random_values(row.latent, 1);
  const std::vector<float> rope = random_values(row.rope, 2);
  std::vector<uint8_t> data(static_cast<size_t>(latent_row_bytes(row)) + 1, 0xcd);
  encode_latent_row(row, latent.data(), rope.data(), data.data());
  EXPECT_EQ(data.back(), 0xcd) << "wrote past the row";
  double error = 0, norm = 0, rope_error = 0, rope_norm = 0;
  for (int32_t i = 0; i < row.latent; ++i) {
    const double x = latent[static_cast<size_t>(i)];
    error += std::pow(latent_value(row, data.data(), i) - x, 2);
    norm += x * x;
  }
  for (int32_t i = 0; i < row.rope; ++i) {
    const double x = rope[static_cast<size_t>(i)];
    rope_error += std::pow(rope_value(row, data.data(), i) - x, 2);
    rope_norm += x * x;
  }
  EXPECT_LE(std::sqrt(error / norm), latent_bound);
  EXPECT_LE(std::sqrt(rope_error / rope_norm), rope_bound);
}

TEST(LatentRow, RoundTripErrorIsBoundedPerFormat) {
  for (const auto& [latent, rope] : {std::pair{512, 64}, {32, 16}, {48, 8}, {160, 16}}) {
    check_round_trip({LatentRowFormat::kF32, latent, rope}, 0.0, 0.0);
    check_round_trip({LatentRowFormat::kBF16, latent, rope}, 0.003, 0.003);
    check_round_trip({LatentRowFormat::kFp8, latent, rope}, 0.04, 0.003);
    check_round_trip({LatentRowFormat::kNvfp4, latent, rope}, 0.14, 0.04);
  }
}

TEST(LatentRow, Fp8ScalesArePowersOfTwo) {
  const LatentRow row{LatentRowFormat::kFp8, 512, 64};
  const std::vector<float> latent = random_values(512, 3);
  std::vector<uint8_t> data(656);
  encode_latent_row(row, latent.data(), latent.data(), data.data());
  for (int group = 0; group < 4; ++group) {
    int exponent = 0;
    EXPECT_EQ(std::frexp(load_f32(data.data() + 512 + 4 * group), &exponent), 0.5F);
  }
}

TEST(LatentRow, AllZeroRowsDecodeToZero) {
  const std::vector<float> zeros(576, 0.0F);
  for (const auto format : {LatentRowFormat::kFp8, LatentRowFormat::kNvfp4}) {
    const LatentRow row{format, 512, 64};
    std::vector<uint8_t> data(static_cast<size_t>(latent_row_bytes(row)), 0xff);
    encode_latent_row(row, zeros.data(), zeros.data(), data.data());
    for (int32_t i = 0; i < 512; ++i) EXPECT_EQ(latent_value(row, data.data(), i), 0.0F);
  }
}

TEST(IndexPage, KeysOfAPageDoNotTouchEachOther) {
  for (const auto format : {IndexKeyFormat::kF32, IndexKeyFormat::kBF16, IndexKeyFormat::kFp8}) {
    const IndexPage page{format, 32};
    std::vector<uint8_t> data(static_cast<size_t>(index_page_bytes(page)));
    std::vector<std::vector<float>> keys;
    for (int32_t slot = 0; slot < kBlockTokens; ++slot) {
      keys.push_back(random_values(32, static_cast<uint32_t>(slot)));
      encode_index_key(page, keys.back().data(), data.data(), slot);
    }
    for (int32_t slot = 0; slot < kBlockTokens; ++slot) {
      for (int32_t i = 0; i < 32; ++i) {
        const float x = keys[static_cast<size_t>(slot)][static_cast<size_t>(i)];
        EXPECT_NEAR(index_key_value(page, data.data(), slot, i), x, 0.07F * std::abs(x) + 0.02F);
      }
    }
  }
}

}  // namespace
}  // namespace baton
