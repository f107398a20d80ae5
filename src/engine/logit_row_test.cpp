#include "engine/logit_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "base/hash.h"
#include "base/numeric.h"

namespace baton {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

using Random = std::mt19937;
using Row = std::vector<float>;

struct Shape {
  const char* name;
  float (*logit)(Random&);
};
float normal(Random& random) {
  return std::normal_distribution<float>(0.0F, 3.0F)(random);
}
constexpr auto kShapes = std::to_array<Shape>({
    {"normal", &normal},
    {"few levels, many ties", [](Random& r) { return static_cast<float>(r() % 12) * 0.25F; }},
    {"all equal", [](Random&) { return -7.5F; }},
    {"zeros of both signs", [](Random& r) { return r() % 2 == 0 ? 0.0F : -0.0F; }},
    {"mostly -inf", [](Random& r) { return r() % 8 == 0 ? normal(r) : -kInf; }},
    {"huge", [](Random& r) { return (r() % 2 == 0 ? 1e38F : -1e38F) * (1.0F + normal(r) * 0.1F); }},
    {"one above the rest", [](Random& r) { return r() % 997 == 0 ? 20.0F : normal(r); }},
});

// A row with a finite maximum.
Row make_row(const Shape& shape, size_t size, Random& random) {
  Row row(size);
  for (float& logit : row) logit = shape.logit(random);
  if (std::isinf(std::ranges::max(row))) row[random() % size] = 1.0F;
  return row;
}

std::vector<int32_t> sorted_tokens(const Row& row) {
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, std::greater(), [&](int32_t t) { return row[static_cast<size_t>(t)]; });
  return order;
}

// The definition, in double: what each token weighs after all filters, and whether the border of
// top_p is so close to a token's that rounding decides.
struct Expected {
  std::vector<double> weights;
  bool close = false;
};
Expected expect(const Row& row, const LogitRow::Filter& filter) {
  const double best = static_cast<double>(std::ranges::max(row));
  const auto weight = [&](int32_t token) {
    const double logit = static_cast<double>(row[static_cast<size_t>(token)]);
    return std::exp((logit - best) / static_cast<double>(filter.temperature));
  };
  std::vector<int32_t> kept = sorted_tokens(row);
  if (filter.top_k > 0 && static_cast<size_t>(filter.top_k) < kept.size()) {
    kept.resize(static_cast<size_t>(filter.top_k));
  }
  Expected expected{.weights = std::vector<double>(row.size())};
  std::erase_if(kept, [&](int32_t token) {
    const double w = weight(token);
    expected.close |= std::abs(w - static_cast<double>(filter.min_p)) < 1e-5 * w;
    return w < static_cast<double>(filter.min_p) || w < 1e-21;
  });
  double total = 0.0;
  for (const int32_t token : kept) total += weight(token);
  const double enough = static_cast<double>(filter.top_p) * total;
  double sum = 0.0;
  for (const int32_t token : kept) {
    expected.close |= filter.top_p < 1.0F && std::abs(sum - enough) < 1e-5 * total;
    if (sum > 0.0 && sum >= enough && filter.top_p < 1.0F) break;
    sum += expected.weights[static_cast<size_t>(token)] = weight(token);
  }
  return expected;
}

// Near both ends of a token's share of [0, 1) that token must come: a token too many or too few
// anywhere before it would move its share away.
void check_draws(const Row& row, const LogitRow::Filter& filter, const Expected& expected) {
  const LogitRow logits(row);
  const double total = std::accumulate(expected.weights.begin(), expected.weights.end(), 0.0);
  const size_t step = 1 + row.size() / 16;
  double before = 0.0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double weight = expected.weights[i];
    // Shares smaller than the rounding of the sums are left alone.
    if (weight > 1e-4 * total && (i % step == 0 || weight > 0.1 * total)) {
      for (const double within : {0.02, 0.98}) {
        const double random = (before + within * weight) / total;
        ASSERT_EQ(logits.draw(filter, random), static_cast<int32_t>(i)) << within;
      }
    }
    before += weight;
  }
  for (const double random : {0.0, 1.0 - 0x1p-53}) {
    EXPECT_GT(expected.weights[static_cast<size_t>(logits.draw(filter, random))], 0.0);
  }
}

TEST(LogitRow, DrawsFromTheSetThatSortingInDoubleWouldKeep) {
  Random random(11);
  int checked = 0;
  for (const size_t size : {1U, 2U, 10U, 127U, 128U, 129U, 1000U, 10000U}) {
    for (const Shape& shape : kShapes) {
      for (int round = 0; round < (size < 1000 ? 12 : 4); ++round) {
        const Row row = make_row(shape, size, random);
        LogitRow::Filter filter;
        filter.temperature = std::array{1.0F, 0.3F, 2.0F, 1e-4F, 1e9F}[random() % 5];
        if (random() % 2 == 0) filter.top_k = static_cast<int32_t>(1 + random() % (2 * size));
        if (random() % 3 != 0) filter.top_p = 0.05F + 0.1F * static_cast<float>(random() % 10);
        if (random() % 4 == 0) filter.min_p = 0.001F * static_cast<float>(random() % 1000);
        const Expected expected = expect(row, filter);
        if (expected.close) continue;
        ++checked;
        SCOPED_TRACE(std::string(shape.name) + ", " + std::to_string(size) +
                     " tokens, temperature " + std::to_string(filter.temperature) + " top_k " +
                     std::to_string(filter.top_k) + " top_p " + std::to_string(filter.top_p) +
                     " min_p " + std::to_string(filter.min_p));
        ASSERT_NO_FATAL_FAILURE(check_draws(row, filter, expected));
      }
    }
  }
  EXPECT_GT(checked, 300);
}

TEST(LogitRow, FindsTheBestAsSortingDoes) {
  Random random(12);
  for (const size_t size : {1U, 2U, 127U, 129U, 1000U, 10000U}) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(std::string(shape.name) + ", " + std::to_string(size));
      const Row row = make_row(shape, size, random);
      const std::vector<int32_t> order = sorted_tokens(row);
      const LogitRow logits(row);
      ASSERT_TRUE(logits.finite());
      EXPECT_EQ(logits.maximum(), row[static_cast<size_t>(order[0])]);
      EXPECT_EQ(logits.argmax(), order[0]);
      for (const size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{20}, size, size + 3}) {
        const std::vector<int32_t> best = logits.best(count);
        const size_t expected = std::min(count, size);
        EXPECT_EQ(best,
                  std::vector<int32_t>(order.begin(),
                                       order.begin() + static_cast<std::ptrdiff_t>(expected)));
      }
    }
  }
}

TEST(LogitRow, SumsExponentialsAsDoublesDo) {
  Random random(13);
  for (const size_t size : {1U, 100U, 10000U}) {
    for (const Shape& shape : kShapes) {
      const Row row = make_row(shape, size, random);
      const double best = static_cast<double>(std::ranges::max(row));
      double sum = 0.0;
      for (const float logit : row) sum += std::exp(static_cast<double>(logit) - best);
      EXPECT_NEAR(LogitRow(row).log_sum_exp() - best, std::log(sum), 5e-7) << shape.name;
    }
  }
}

TEST(LogitRow, SeesNaNAndInfinityAnywhere) {
  for (const size_t size : {1U, 128U, 300U}) {
    EXPECT_FALSE(LogitRow(Row(size, -kInf)).finite());
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      for (const float bad : {kNaN, -kNaN, kInf}) {
        Row row(size, 1.0F);
        row[at] = bad;
        EXPECT_FALSE(LogitRow(row).finite()) << bad << " at " << at;
      }
      Row row(size, -kInf);
      row[at] = -3e38F;
      const LogitRow one(row);
      ASSERT_TRUE(one.finite());
      EXPECT_EQ(one.argmax(), static_cast<int32_t>(at));
      EXPECT_EQ(one.draw({.top_k = 3, .top_p = 0.5F}, 0.99), static_cast<int32_t>(at));
    }
  }
}

TEST(LogitLoops, WeighToAFewUnitsInTheLastPlace) {
  std::array<float, kLogitBlock> logits, weights;
  double worst = 0.0;
  for (int round = 0; round < 200; ++round) {
    const float span = 0.4F * static_cast<float>(round + 1);
    for (size_t i = 0; i < kLogitBlock; ++i) logits[i] = -span * static_cast<float>(i) / 127.0F;
    (void)weigh_block(
        logits.data(), {.maximum = 0.0F, .scale = 1.0F, .lowest = -72.0F}, -kInf, weights.data());
    for (size_t i = 0; i < kLogitBlock; ++i) {
      const double exact = std::exp2(static_cast<double>(logits[i]));
      if (logits[i] < -72.0F) {
        ASSERT_EQ(weights[i], 0.0F);
      } else {
        worst = std::max(worst, std::abs(static_cast<double>(weights[i]) / exact - 1.0));
      }
    }
    ASSERT_EQ(weights[0], 1.0F);
  }
  EXPECT_LT(worst, 2.5e-7);
}

// The expected number is the same in every build. Release builds take the widest vectors of the
// processor, builds with sanitizers those every processor has: that they agree is checked here.
TEST(LogitLoops, GiveTheSameBitsAtAnyVectorWidth) {
  std::array<float, kLogitBlock> logits, weights;
  std::array<int32_t, kLogitBlock> buckets;
  uint32_t state = 1;
  uint64_t hash = 0;
  for (int round = 0; round < 500; ++round) {
    for (float& logit : logits) {
      state = state * 1664525U + 1013904223U;
      logit = static_cast<float>(state >> 8) * -0x1p-20F;  // in (-16, 0]
    }
    const Softmax softmax{
        .maximum = 0.0F, .scale = 0.05F * static_cast<float>(round), .lowest = -72.0F};
    const float sum = weigh_block(logits.data(), softmax, -12.0F, weights.data());
    bucket_block(logits.data(), softmax, buckets.data());
    hash = hash_mix(hash, float_bits(sum));
    for (size_t i = 0; i < kLogitBlock; ++i) {
      hash = hash_mix(hash,
                      uint64_t{float_bits(weights[i])} << 32 | static_cast<uint32_t>(buckets[i]));
    }
  }
  EXPECT_EQ(hash, 1667044510426042601U);
}

}  // namespace
}  // namespace baton
