// Drafts through the engine with the scripted model: streams, ends and counts are those of steps
// of one token.
#include "engine/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/answers.h"
#include "kernels/tables.h"
#include "model/architectures/scripted.h"

namespace baton {
namespace {

using testing::Answer;
using testing::answer;
using testing::Ask;
using ::testing::HasSubstr;
using testing::start;

constexpr int32_t kEos = 2;

ScriptedOptions scripted(std::vector<int32_t> play, int32_t tokens_per_step) {
  ScriptedOptions options;
  options.vocab_size = 500;
  options.eos_token_ids = {kEos};
  options.max_position_embeddings = 512;
  options.scripts = {{.tokens = std::move(play), .when = {}}};
  options.tokens_per_step = tokens_per_step;
  return options;
}

Ask greedy(int32_t max_tokens) {
  Ask ask{.prompt = {3, 4, 5}};
  ask.sampling.temperature = 0.0F;
  ask.sampling.max_tokens = max_tokens;
  return ask;
}

std::vector<int32_t> counting(int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(10 + i);
  return tokens;
}

std::vector<int32_t> played(int32_t count) {
  std::vector<int32_t> tokens = counting(count);
  tokens.push_back(kEos);
  return tokens;
}

TEST(Speculation, GivesTheScriptInStepsOfTheLengthAsked) {
  for (int32_t per_step = 1; per_step <= 8; ++per_step) {
    const auto engine = start(scripted(counting(17), per_step));
    const Answer got = answer(*engine, {greedy(100)})[0];
    EXPECT_EQ(got.tokens, played(17));
    EXPECT_EQ(got.reason, FinishReason::kStop);
    EXPECT_EQ(got.stop_token, kEos);
    EXPECT_EQ(got.usage.output_tokens, 18);
    // The prompt's step gives one, then `per_step` each, eos included.
    std::vector<size_t> pieces{1};
    for (int32_t left = 17; left > 0; left -= per_step) {
      pieces.push_back(static_cast<size_t>(std::min(left, per_step)));
    }
    EXPECT_EQ(got.pieces, pieces) << per_step;
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.generation_tokens, 18);
    EXPECT_EQ(stats.steps, static_cast<int64_t>(pieces.size()));
    EXPECT_EQ(stats.accepted_at.size(), static_cast<size_t>(per_step - 1));
    EXPECT_EQ(stats.drafts, per_step == 1 ? 0 : stats.steps - 1);
  }
}

// Ends at every output index, by every means, with right drafts and with wrong ones.
TEST(Speculation, EndsWhereStepsOfOneTokenEnd) {
  std::vector<Ask> asks;
  for (int32_t at = 0; at <= 12; ++at) {
    asks.push_back(greedy(at));
    asks.push_back(greedy(100));
    asks.back().sampling.stop_token_ids = {10 + at};
    asks.push_back(asks.back());
    asks.back().sampling.min_tokens = 6;
    asks.back().sampling.temperature = 0.8F;
    asks.back().sampling.seed = 7;
    asks.back().sampling.logprobs = 2;
    asks.push_back(greedy(20));
    asks.back().sampling.ignore_eos = true;
    asks.back().sampling.min_tokens = at;
    asks.push_back(greedy(20));
    asks.back().sampling.min_tokens = at;  // eos comes at 9
    asks.push_back(asks.back());
    asks.back().sampling.logit_bias = {{12, -100.0F}, {kEos, 250.0F}};
  }
  const auto alone = start(scripted(counting(9), 1));
  std::vector<Answer> expected;
  for (const Ask& ask : asks) expected.push_back(answer(*alone, {ask})[0]);
  for (const int32_t per_step : {2, 3, 5, 8, 64}) {
    for (const int32_t wrong_every : {0, 1, 3, 7}) {
      ScriptedOptions model = scripted(counting(9), per_step);
      model.wrong_draft_every = wrong_every;
      const auto engine = start(model);
      const auto answers = answer(*engine, asks);
      for (size_t i = 0; i < asks.size(); ++i) {
        EXPECT_EQ(answers[i], expected[i]) << per_step << " " << wrong_every << " " << i;
      }
      EXPECT_EQ(engine->stats().blocks_referenced, 0);
      EXPECT_EQ(engine->stats().accepted_drafts == 0, wrong_every == 1);
    }
  }
}

// SD-16: a row that is not a number ends its own request, at its own output index.
TEST(Speculation, EndsTheRequestAtTheRowThatIsNotANumber) {
  for (const int32_t per_step : {1, 2, 4, 8}) {
    ScriptedOptions model = scripted(counting(20), per_step);
    model.scripts.push_back({.tokens = counting(20), .when = {7}, .nan_at = 10});
    model.scripts.push_back({.tokens = counting(20), .when = {8}, .nan_at = -1, .inf_at = 12});
    const auto engine = start(model);
    std::vector<Ask> asks{greedy(50), greedy(50), greedy(50)};
    asks[1].prompt = {7};
    asks[2].prompt = {8};
    const auto answers = answer(*engine, asks);
    EXPECT_EQ(answers[0].tokens, played(20));
    EXPECT_EQ(answers[1].tokens, counting(10));
    EXPECT_EQ(answers[2].tokens, counting(12));
    EXPECT_EQ(answers[1].reason, FinishReason::kError);
    EXPECT_EQ(answers[2].reason, FinishReason::kError);
    EXPECT_EQ(engine->stats().finished_error, 2);
  }
}

// A hash of all tokens so far, read from KV: a stale row anywhere would change the output.
TEST(Speculation, ReadsNoRowOfAWrongDraft) {
  ScriptedOptions model = scripted({}, 1);
  model.mode = ScriptedMode::kHistory;
  std::vector<Ask> asks;
  for (int32_t i = 0; i < 20; ++i) {
    asks.push_back(greedy(120));
    for (int32_t t = 0; t < 20 + i * 9; ++t) asks.back().prompt.push_back(3 + t * (i % 3));
  }
  const auto alone = start(model);
  std::vector<Answer> expected;
  for (const Ask& ask : asks) expected.push_back(answer(*alone, {ask})[0]);
  for (const int32_t wrong_every : {2, 3, 5}) {
    for (const int64_t pool_tokens : {512, 4096}) {
      model.tokens_per_step = 6;
      model.wrong_draft_every = wrong_every;
      EngineOptions options;
      options.max_num_seqs = 8;
      options.max_num_batched_tokens = 50;
      options.kv_cache_tokens = pool_tokens;
      const auto engine = start(model, options);
      const auto answers = answer(*engine, asks);
      for (size_t i = 0; i < asks.size(); ++i) EXPECT_EQ(answers[i], expected[i]) << i;
      EXPECT_EQ(engine->stats().preemptions > 0, pool_tokens == 512);
      EXPECT_GT(engine->stats().accepted_drafts, 100);
    }
  }
}

TEST(Speculation, LeavesPromptLogprobsAndPrefixHitsAlone) {
  for (const int32_t per_step : {1, 4}) {
    const auto engine = start(scripted(counting(100), per_step));
    Ask ask = greedy(90);
    ask.prompt.assign(100, 3);
    EXPECT_EQ(answer(*engine, {ask})[0].usage.cached_tokens, 0);
    Ask longer = greedy(10);
    longer.prompt = ask.prompt;
    for (const int32_t token : counting(90)) longer.prompt.push_back(token);
    // 100 + 90 tokens, the last of which is not computed: two full blocks.
    EXPECT_EQ(answer(*engine, {longer})[0].usage.cached_tokens, 128);
    EXPECT_EQ(engine->stats().prefix_cache_hits, 128);
  }
}

TEST(Speculation, RefusesWhatCannotWork) {
  SpeculationOptions options{.method = DraftMethod::kNgram};
  EXPECT_THAT(check_speculation(options).error().message,
              HasSubstr("num_speculative_tokens: expected 1..64, got 0"));
  options.num_speculative_tokens = 4;
  EXPECT_TRUE(check_speculation(options));
  options.prompt_lookup_min = 6;
  EXPECT_THAT(check_speculation(options).error().message,
              HasSubstr("prompt_lookup_max: expected 6..32, got 5"));
  options.prompt_lookup_min = 0;
  EXPECT_THAT(check_speculation(options).error().message,
              HasSubstr("prompt_lookup_min: expected 1..32, got 0"));
}

}  // namespace
}  // namespace baton
