#include "base/numeric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace baton {
namespace {

TEST(Numeric, EveryBf16CodeSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float value = bf16_to_float(static_cast<uint16_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_bf16(value), code);
  }
}

TEST(Numeric, EveryHalfCodeSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float value = f16_to_float(static_cast<uint16_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_f16(value), code) << value;
  }
}

TEST(Numeric, EveryE4m3CodeSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    if (std::isnan(value)) {
      EXPECT_EQ(code & 0x7fU, 0x7fU);
      continue;
    }
    EXPECT_EQ(float_to_e4m3(value), code) << value;
  }
}

TEST(Numeric, E4m3RoundsToTheNearestCodeWithTiesToEven) {
  for (uint32_t code = 0; code + 1 < 0x7f; ++code) {
    const float low = e4m3_to_float(static_cast<uint8_t>(code));
    const float high = e4m3_to_float(static_cast<uint8_t>(code + 1));
    const float middle = 0.5F * (low + high);
    EXPECT_EQ(float_to_e4m3(middle), (code & 1U) == 0 ? code : code + 1);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.0F)), code);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 1000.0F)), code + 1);
  }
  EXPECT_EQ(float_to_e4m3(1e9F), 0x7e);
  EXPECT_EQ(float_to_e4m3(-std::numeric_limits<float>::infinity()), 0xfe);
}

TEST(Numeric, E2m1RoundsToTheNearestCodeWithTiesToEven) {
  constexpr float kValues[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  for (uint32_t code = 0; code < 8; ++code) {
    EXPECT_EQ(e2m1_to_float(code), kValues[code]);
    EXPECT_EQ(e2m1_to_float(code | 8U), -kValues[code]);
    EXPECT_EQ(float_to_e2m1(kValues[code]), code);
    if (code == 7) break;
    const float middle = 0.5F * (kValues[code] + kValues[code + 1]);
    EXPECT_EQ(float_to_e2m1(middle), (code & 1U) == 0 ? code : code + 1);
  }
  EXPECT_EQ(float_to_e2m1(-100.0F), 15U);
}

TEST(Numeric, CeilPowerOfTwoIsExact) {
  EXPECT_EQ(ceil_power_of_two(1.0F), 1.0F);
  EXPECT_EQ(ceil_power_of_two(1.0001F), 2.0F);
  EXPECT_EQ(ceil_power_of_two(0.3F), 0.5F);
  EXPECT_EQ(ceil_power_of_two(448.0F), 512.0F);
}

}  // namespace
}  // namespace baton
