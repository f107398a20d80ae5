#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace baton {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const std::vector<int32_t> kEos{2};

Sequence sequence_with(const SamplingParams& sampling,
                       std::vector<int32_t> prompt = {5, 6},
                       const std::vector<int32_t>& outputs = {}) {
  Sequence sequence;
  sequence.request.sampling = sampling;
  sequence.prompt_tokens = static_cast<int32_t>(prompt.size());
  sequence.tokens = std::move(prompt);
  sequence.tokens.insert(sequence.tokens.end(), outputs.begin(), outputs.end());
  sequence.max_tokens = 1000;
  return sequence;
}

int32_t token_of(std::vector<float> logits, const Sequence& sequence, uint64_t seed = 0) {
  SamplerState state{.seed = seed, .prompt_tokens = {}, .output_counts = {}};
  const auto token = sample(logits, sequence, state, kEos);
  EXPECT_TRUE(token) << token.error().message;
  return token ? token->token : -1;
}

// How often each token comes over many output positions.
std::map<int32_t, int> draws(const std::vector<float>& logits,
                             const SamplingParams& sampling,
                             int count = 4000) {
  std::map<int32_t, int> counts;
  SamplerState state{.seed = 17, .prompt_tokens = {}, .output_counts = {}};
  Sequence sequence = sequence_with(sampling);
  for (int i = 0; i < count; ++i) {
    auto row = logits;
    ++counts[sample(row, sequence, state, {})->token];
    sequence.tokens.push_back(0);
  }
  return counts;
}

SamplingParams at_temperature(float temperature) {
  SamplingParams sampling;
  sampling.temperature = temperature;
  return sampling;
}

TEST(Sampler, IsGreedyBelowTheSmallestTemperatureAndTakesTheLowestOfEquals) {
  for (const float t : {0.0F, -0.0F, 1e-30F, 1e-8F, 9e-6F}) {
    EXPECT_EQ(token_of({1, 4, 4, 3}, sequence_with(at_temperature(t))), 1) << t;
  }
  // Close to greedy, but a division that must not overflow.
  EXPECT_EQ(token_of({1, 4, 3.9F, -1e30F}, sequence_with(at_temperature(1e-4F))), 1);
  EXPECT_EQ(token_of({-1e38F, 3e38F}, sequence_with(at_temperature(1e-4F))), 1);
}

TEST(Sampler, DrawsWithTheProbabilitiesOfTheSoftmax) {
  const std::vector<float> logits{std::log(1.0F), std::log(2.0F), std::log(5.0F), -kInf};
  const auto counts = draws(logits, at_temperature(1.0F));
  EXPECT_NEAR(counts.at(0), 500, 90);
  EXPECT_NEAR(counts.at(1), 1000, 120);
  EXPECT_NEAR(counts.at(2), 2500, 130);
  EXPECT_FALSE(counts.contains(3));
  const auto flat = draws(logits, at_temperature(1e9F));
  EXPECT_NEAR(flat.at(0), 1333, 130);
}

TEST(Sampler, KeepsOnlyWhatTopKTopPAndMinPAllow) {
  const std::vector<float> logits{std::log(1.0F), std::log(2.0F), std::log(5.0F), std::log(2.0F)};
  SamplingParams top_k = at_temperature(1.0F);
  top_k.top_k = 2;  // of the two equal ones the lower id stays
  EXPECT_THAT(draws(logits, top_k),
              testing::UnorderedElementsAre(testing::Pair(1, testing::Gt(900)),
                                            testing::Pair(2, testing::Gt(2500))));
  SamplingParams top_p = at_temperature(1.0F);
  top_p.top_p = 0.55F;  // 0.5 is not enough, 0.5 + 0.2 is
  EXPECT_THAT(draws(logits, top_p),
              testing::UnorderedElementsAre(testing::Key(1), testing::Key(2)));
  top_p.top_p = 0.01F;  // always at least the best
  EXPECT_THAT(draws(logits, top_p), testing::UnorderedElementsAre(testing::Key(2)));
  SamplingParams min_p = at_temperature(1.0F);
  min_p.min_p = 0.3F;  // of the best one's probability
  EXPECT_THAT(draws(logits, min_p),
              testing::UnorderedElementsAre(testing::Key(1), testing::Key(2), testing::Key(3)));
  SamplingParams all = top_k;
  all.top_p = 0.5F;
  EXPECT_THAT(draws(logits, all), testing::UnorderedElementsAre(testing::Key(2)));
}

// Against the plain definition: sort everything, keep k, keep p. The drawn set must be the same.
TEST(Sampler, KeepsTheSetThatSortingWouldKeep) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<float> logits(1 + random() % 300);
    // Few levels: many ties, and borders inside runs of equal weights.
    for (float& value : logits) value = static_cast<float>(random() % 12) * 0.25F;
    SamplingParams s = at_temperature(1.0F);
    s.top_k = static_cast<int32_t>(random() % 40);
    s.top_p = 0.05F + 0.1F * static_cast<float>(random() % 10);

    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    if (s.top_k > 0 && static_cast<size_t>(s.top_k) < order.size()) {
      order.resize(static_cast<size_t>(s.top_k));
    }
    const float best = *std::ranges::max_element(logits);
    const auto weight = [&](int32_t token) {
      return static_cast<double>(std::exp(logits[static_cast<size_t>(token)] - best));
    };
    double total = 0.0, sum = 0.0;
    for (const int32_t token : order) total += weight(token);
    std::set<int32_t> kept;
    for (const int32_t token : order) {
      // Sums in another order may differ in the last bits: leave borders alone.
      if (std::abs(sum - static_cast<double>(s.top_p) * total) < 1e-9 * total) s.top_p = 2.0F;
      if (!kept.empty() && sum >= static_cast<double>(s.top_p) * total) break;
      kept.insert(token);
      sum += weight(token);
    }
    if (s.top_p > 1.0F) continue;
    std::set<int32_t> drawn;
    for (const auto& [token, times] : draws(logits, s, 500)) drawn.insert(token);
    EXPECT_TRUE(std::ranges::includes(kept, drawn)) << "round " << round;
    EXPECT_TRUE(kept.size() >= 6 || drawn == kept) << "round " << round;
  }
}

TEST(Sampler, DependsOnSeedAndOutputIndexAlone) {
  std::vector<float> logits(50);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7) * 0.1F;
  const SamplingParams sampling = at_temperature(1.0F);
  std::map<int32_t, int> by_seed, by_index;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const int32_t token = token_of(logits, sequence_with(sampling), seed);
    EXPECT_EQ(token, token_of(logits, sequence_with(sampling, {9, 9, 9, 9}), seed));
    ++by_seed[token];
    ++by_index[token_of(logits, sequence_with(sampling, {5, 6}, std::vector<int32_t>(seed, 1)), 3)];
  }
  EXPECT_GT(by_seed.size(), 15U);
  EXPECT_GT(by_index.size(), 15U);
}

// Rows of many kinds, one of them bad: what each gives does not depend on who else is in the step
// or on the threads.
TEST(Sampler, GivesEveryRowOfAStepWhatItGetsAlone) {
  constexpr size_t kVocab = 30000;  // more than one thread is woken for
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<std::vector<float>> rows(13, std::vector<float>(kVocab));
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (float& logit : rows[i]) logit = normal(random);
    SamplingParams s = at_temperature(i % 4 == 0 ? 0.0F : 1.0F);
    if (i % 2 == 0) s.presence_penalty = 1.0F;
    if (i % 3 == 0) s.top_p = 0.9F;
    if (i % 5 == 0) s.logprobs = 3;
    sequences.push_back(sequence_with(s, {5, 6}, {7, 8}));
  }
  rows[6][100] = std::numeric_limits<float>::quiet_NaN();

  ThreadPool pool(3);
  for (ThreadPool* threads : {&pool, static_cast<ThreadPool*>(nullptr)}) {
    std::vector<std::vector<float>> logits = rows;
    std::vector<SamplerState> states(rows.size());
    std::vector<SampleJob> jobs;
    for (size_t i = 0; i < rows.size(); ++i) {
      states[i].seed = i;
      jobs.push_back({.logits = logits[i], .sequence = &sequences[i], .state = &states[i]});
    }
    sample_all(jobs, kEos, threads);
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<float> alone = rows[i];
      SamplerState state{.seed = i, .prompt_tokens = {}, .output_counts = {}};
      const auto expected = sample(alone, sequences[i], state, kEos);
      ASSERT_EQ(jobs[i].token.has_value(), i != 6) << i;
      ASSERT_EQ(expected.has_value(), i != 6) << i;
      if (!expected) continue;
      EXPECT_EQ(jobs[i].token->token, expected->token) << i;
      EXPECT_EQ(jobs[i].token->logprob, expected->logprob) << i;
      EXPECT_EQ(jobs[i].token->top.size(), expected->top.size()) << i;
    }
  }
  sample_all({}, kEos, &pool);
}

TEST(Sampler, AppliesPenaltiesAndBias) {
  SamplingParams greedy = at_temperature(0.0F);
  SamplingParams s = greedy;
  s.logit_bias = {{0, 10.0F}};
  EXPECT_EQ(token_of({1, 4, 2}, sequence_with(s)), 0);
  s.logit_bias = {{1, -100.0F}};
  EXPECT_EQ(token_of({1, 4, 2}, sequence_with(s)), 2);
  // Repetition counts the prompt too; presence and frequency only what was generated.
  s = greedy;
  s.repetition_penalty = 3.0F;
  EXPECT_EQ(token_of({1, 4, 2}, sequence_with(s, {1})), 2);
  EXPECT_EQ(token_of({-1, -4, -2}, sequence_with(s, {0})), 2);  // -1 * 3 is behind -2
  s = greedy;
  s.presence_penalty = 2.0F;
  EXPECT_EQ(token_of({1, 4, 3}, sequence_with(s, {1})), 1);
  EXPECT_EQ(token_of({1, 4, 3}, sequence_with(s, {0}, {1})), 2);
  s = greedy;
  s.frequency_penalty = 0.6F;
  EXPECT_EQ(token_of({1, 4, 3}, sequence_with(s, {0}, {1})), 1);
  EXPECT_EQ(token_of({1, 4, 3}, sequence_with(s, {0}, {1, 1})), 2);
}

TEST(Sampler, BansEveryEndBeforeMinTokens) {
  SamplingParams s = at_temperature(0.0F);
  s.min_tokens = 2;
  s.stop_token_ids = {3};
  EXPECT_EQ(token_of({0, 1, 9, 8}, sequence_with(s, {5}, {7})), 1);
  EXPECT_EQ(token_of({0, 1, 9, 8}, sequence_with(s, {5}, {7, 7})), 2);
}

TEST(Sampler, GivesLogprobsOfTheRawLogits) {
  SamplingParams s = at_temperature(0.0F);
  s.logprobs = 2;
  s.logit_bias = {{0, 100.0F}};
  std::vector<float> logits{std::log(1.0F), std::log(2.0F), std::log(5.0F)};
  SamplerState state;
  const auto token = sample(logits, sequence_with(s), state, kEos);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->token, 0);
  EXPECT_NEAR(token->logprob, std::log(1.0F / 8.0F), 1e-6);
  ASSERT_EQ(token->top.size(), 2U);
  EXPECT_EQ(token->top[0].token, 2);
  EXPECT_NEAR(token->top[0].logprob, std::log(5.0F / 8.0F), 1e-6);
  EXPECT_EQ(token->top[1].token, 1);
  EXPECT_EQ(logprob_of(std::vector<float>{1, 2}, 0, 20)->top.size(), 2U);
}

TEST(Sampler, RefusesRowsThatAreNotNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& row :
       std::vector<std::vector<float>>{{nan, nan}, {1, nan, 2}, {-kInf, -kInf}, {1, kInf}}) {
    for (const float temperature : {0.0F, 1.0F}) {
      auto logits = row;
      SamplerState state;
      const auto token = sample(logits, sequence_with(at_temperature(temperature)), state, kEos);
      ASSERT_FALSE(token);
      EXPECT_THAT(token.error().message, testing::HasSubstr("not finite"));
    }
  }
}

TEST(Sampler, NeedsLogitsOnlyForWhatArgmaxCannotGive) {
  const SamplingParams greedy = at_temperature(0.0F);
  EXPECT_FALSE(needs_logits(sequence_with(greedy)));
  EXPECT_TRUE(needs_logits(sequence_with(at_temperature(1.0F))));
  SamplingParams s = greedy;
  s.logprobs = 0;
  EXPECT_TRUE(needs_logits(sequence_with(s)));
  s = greedy;
  s.min_tokens = 1;
  EXPECT_TRUE(needs_logits(sequence_with(s)));
  EXPECT_FALSE(needs_logits(sequence_with(s, {1}, {4})));
}

TEST(Sampler, UniformNumbersAreEven) {
  double sum = 0.0;
  std::vector<int> bins(10);
  for (int64_t i = 0; i < 10000; ++i) {
    const double u = uniform(5, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    ++bins[static_cast<size_t>(u * 10)];
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
  for (const int count : bins) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace baton
