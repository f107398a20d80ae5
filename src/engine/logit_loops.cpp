#include "engine/logit_loops.h"

#include <algorithm>

#include "base/numeric.h"

// One copy of a function per vector width, chosen when the program is loaded.
#if defined(BATON_LOGIT_LOOPS_BY_LEVEL)
#define BATON_BY_LEVEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BATON_BY_LEVEL
#endif

namespace baton {
namespace {

// Added to a small number, these leave its nearest integer in the lowest bits of the sum.
constexpr float kRoundsSigned = 0x1.8p23F;
constexpr float kRoundsPositive = 0x1p23F;

constexpr uint32_t kSign = 0x80000000U;
constexpr int32_t kMagnitude = 0x7fffffff;
constexpr int32_t kInfinity = 0x7f800000;

// Ordered as the floats are, zeros apart; its own inverse.
int32_t ordered(int32_t bits) {
  return bits ^ ((bits >> 31) & kMagnitude);
}

// All ones or none: the loops stay free of branches, whatever the compiler knows of the values.
uint32_t mask_of(bool condition) {
  return 0U - static_cast<uint32_t>(condition);
}

// 2^x for x in [-126, 0], garbage below. The polynomial is the minimax one of degree 5 for 2^f on
// [-1/2, 1/2] with 2^0 = 1.
float power_of_two(float x) {
  const float shifted = x + kRoundsSigned;
  const float f = x - (shifted - kRoundsSigned);
  float p = 1.3264714507e-3F;
  p = p * f + 9.6715129912e-3F;
  p = p * f + 5.5507339537e-2F;
  p = p * f + 2.4022242427e-1F;
  p = p * f + 6.9314700365e-1F;
  p = p * f + 1.0F;
  return bits_float(float_bits(p) + (float_bits(shifted) << 23));
}

// Folds the upper half of `count` onto the lower.
template <size_t kCount>
void fold(float* values) {
  for (size_t i = 0; i < kCount / 2; ++i) values[i] += values[i + kCount / 2];
}

}  // namespace

BATON_BY_LEVEL
bool find_tops(const float* logits, std::span<float> tops) {
  int32_t largest_magnitude = 0;
  for (size_t b = 0; b < tops.size(); ++b, logits += kLogitBlock) {
    int32_t top = ordered(static_cast<int32_t>(kSign | static_cast<uint32_t>(kInfinity)));
    int32_t magnitude = 0;
    for (size_t i = 0; i < kLogitBlock; ++i) {
      const auto bits = static_cast<int32_t>(float_bits(logits[i]));
      top = std::max(top, ordered(bits));
      magnitude = std::max(magnitude, bits & kMagnitude);
    }
    tops[b] = bits_float(static_cast<uint32_t>(ordered(top)));
    largest_magnitude = std::max(largest_magnitude, magnitude);
  }
  return largest_magnitude <= kInfinity;
}

BATON_BY_LEVEL
float weigh_block(const float* logits, const Softmax& softmax, float at_least, float* weights) {
  const auto [maximum, scale, lowest] = softmax;
  float sums[kLogitBlock];
  for (size_t i = 0; i < kLogitBlock; ++i) {
    const float exponent = (logits[i] - maximum) * scale;
    const uint32_t keep = mask_of((logits[i] >= at_least) & (exponent >= lowest));
    const float weight = bits_float(float_bits(power_of_two(exponent)) & keep);
    weights[i] = weight;
    sums[i] = weight;
  }
  fold<128>(sums);
  fold<64>(sums);
  fold<32>(sums);
  fold<16>(sums);
  fold<8>(sums);
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

BATON_BY_LEVEL
bool any_between(const float* logits, float low, float high) {
  uint32_t any = 0;
  for (size_t i = 0; i < kLogitBlock; ++i) {
    any |= mask_of((logits[i] >= low) & (logits[i] <= high));
  }
  return any != 0;
}

BATON_BY_LEVEL
void bucket_block(const float* logits, const Softmax& softmax, int32_t* buckets) {
  const auto [maximum, scale, lowest] = softmax;
  for (size_t i = 0; i < kLogitBlock; ++i) {
    const float exponent = (logits[i] - maximum) * scale;
    const uint32_t keep = mask_of(exponent >= lowest);
    const uint32_t bucket =
        float_bits(kRoundsPositive - exponent * kBucketsPerOctave) - float_bits(kRoundsPositive);
    buckets[i] = static_cast<int32_t>((bucket & keep) | (kWeightBuckets & ~keep));
  }
}

}  // namespace baton
