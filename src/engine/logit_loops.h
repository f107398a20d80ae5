// The loops that visit every logit of a vocabulary, a block of 128 at a time: pure functions, any
// thread. Plain float arithmetic in a fixed order and without fused multiply-adds, so that a
// processor of any vector width gives the same bits; CMakeLists.txt says for which the file is
// compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace baton {

constexpr size_t kLogitBlock = 128;

// The weight of a logit is 2 ^ ((logit - maximum) * scale), or 0 where that exponent is below
// `lowest`: 1 for the maximum, and nowhere subnormal.
struct Softmax {
  float maximum = 0.0F;
  float scale = 1.0F;   // log2(e) / temperature
  float lowest = 0.0F;  // in [-72.2, 0]
};

// Weights by size, 32 buckets to a factor of two: a larger logit is never in a later bucket.
// Weights of zero are in the one after the last.
constexpr size_t kWeightBuckets = 73 * 32;
constexpr float kBucketsPerOctave = 32.0F;

// tops[b] = the largest of block b. False when there is a NaN anywhere.
[[nodiscard]] bool find_tops(const float* logits, std::span<float> tops);

// The weights of a block, to about 2e-7 of each, and their sum. Logits below `at_least` weigh 0.
float weigh_block(const float* logits, const Softmax& softmax, float at_least, float* weights);

// Whether any logit of the block is in [low, high].
bool any_between(const float* logits, float low, float high);

// buckets: [kLogitBlock]
void bucket_block(const float* logits, const Softmax& softmax, int32_t* buckets);

}  // namespace baton
