// The engine with real (tiny) models: the same request and seed give the same tokens and
// logprobs alone, in a batch, in small chunks, after a prefix hit and after preemption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "engine/engine.h"
#include "engine/testing/answers.h"
#include "kernels/tables.h"

namespace baton {
namespace {

using testing::Answer;
using testing::answer;
using testing::Ask;

// A real model that knows its answers beforehand: its drafts are theirs, every third one wrong.
class DraftingModel final : public Model {
 public:
  DraftingModel(std::unique_ptr<Model> model, std::vector<std::vector<int32_t>> known)
      : model_(std::move(model)), known_(std::move(known)) {}

  const ModelConfig& config() const override { return model_->config(); }
  const BlockLayout& block_layout() const override { return model_->block_layout(); }
  void forward(ForwardContext& context) const override { model_->forward(context); }
  int64_t weights_bytes() const override { return model_->weights_bytes(); }
  int32_t max_drafts() const override { return known_.empty() ? 0 : 5; }

  void draft(const DraftContext& context, std::vector<int32_t>& drafts) const override {
    const size_t at = context.tokens.size();
    for (const auto& tokens : known_) {
      if (tokens.size() < at || !std::ranges::equal(context.tokens, std::span(tokens).first(at))) {
        continue;
      }
      for (size_t i = at; i < std::min(tokens.size(), at + 5); ++i) {
        const auto vocab = static_cast<int32_t>(config().vocab_size);
        drafts.push_back(i % 3 == 0 ? (tokens[i] + 1) % vocab : tokens[i]);
      }
      return;
    }
  }

 private:
  std::unique_ptr<Model> model_;
  std::vector<std::vector<int32_t>> known_;  // prompt and output
};

std::unique_ptr<Engine> start(const std::string& name,
                              const EngineOptions& options,
                              std::vector<std::vector<int32_t>> known = {}) {
  auto device = open_device("cpu", 2).value();
  auto kernels = table_for(*device, "auto");
  EXPECT_TRUE(kernels) << kernels.error().message;
  auto model = load_model("testdata/" + name, *device, {});
  if (!model) {
    ADD_FAILURE() << model.error().message;
    std::abort();
  }
  auto engine = Engine::create(std::make_unique<DraftingModel>(*std::move(model), std::move(known)),
                               std::move(device),
                               **kernels,
                               options);
  EXPECT_TRUE(engine) << engine.error().message;
  return *std::move(engine);
}

// Lengths around block borders; half greedy with logprobs, half drawn with a seed.
std::vector<Ask> some_asks(int64_t vocab) {
  std::vector<Ask> asks;
  std::mt19937 random(5);
  for (const size_t length : {1U, 63U, 64U, 65U, 129U, 200U}) {
    for (const float temperature : {0.0F, 0.9F}) {
      Ask ask;
      for (size_t i = 0; i < length; ++i) {
        ask.prompt.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
      }
      ask.sampling.temperature = temperature;
      ask.sampling.top_p = 0.9F;
      ask.sampling.seed = length;
      ask.sampling.max_tokens = length < 100 ? 100 : 24;  // some grow by more than one block
      ask.sampling.ignore_eos = true;
      ask.sampling.logprobs = 1;
      asks.push_back(ask);
    }
  }
  return asks;
}

EngineOptions with(int32_t seqs, int32_t budget, int64_t kv_tokens, bool caching) {
  EngineOptions options;
  options.max_model_len = 256;
  options.max_num_seqs = seqs;
  options.max_num_batched_tokens = budget;
  options.kv_cache_tokens = kv_tokens;
  options.enable_prefix_caching = caching;
  return options;
}

class EngineWithModel : public ::testing::TestWithParam<const char*> {};

TEST_P(EngineWithModel, GivesTheSameAnswersHoweverTheyAreScheduled) {
  const auto alone = start(GetParam(), with(1, 4096, 4096, false));
  const auto asks = some_asks(alone->model().config().vocab_size);
  std::vector<Answer> expected;
  for (const Ask& ask : asks) expected.push_back(answer(*alone, {ask})[0]);

  struct Setting {
    const char* what;
    EngineOptions options;
  };
  for (const auto& [what, options] : {Setting{"batch", with(16, 4096, 8192, false)},
                                      Setting{"small chunks", with(8, 17, 8192, false)},
                                      Setting{"preemption", with(12, 4096, 512, true)}}) {
    const auto engine = start(GetParam(), options);
    const auto answers = answer(*engine, asks);
    for (size_t i = 0; i < asks.size(); ++i) EXPECT_EQ(answers[i], expected[i]) << what << " " << i;
    EXPECT_EQ(engine->stats().preemptions > 0, options.kv_cache_tokens == 512) << what;
    EXPECT_EQ(engine->stats().blocks_referenced, 0) << what;
  }
}

// Right and wrong drafts, greedy and drawn, with logprobs: the same bits, in fewer steps.
TEST_P(EngineWithModel, GivesTheSameAnswersWithDrafts) {
  const auto alone = start(GetParam(), with(1, 4096, 4096, false));
  auto asks = some_asks(alone->model().config().vocab_size);
  // Penalties and min_tokens look at the output so far, whatever step it came in.
  asks.push_back(asks[1]);
  asks.back().sampling.repetition_penalty = 1.3F;
  asks.back().sampling.frequency_penalty = 0.5F;
  asks.back().sampling.ignore_eos = false;
  asks.back().sampling.min_tokens = 20;
  asks.push_back(asks[2]);
  asks.back().sampling.logprobs = -1;  // the device's argmax alone
  std::vector<Answer> expected;
  std::vector<std::vector<int32_t>> known;
  for (const Ask& ask : asks) {
    expected.push_back(answer(*alone, {ask})[0]);
    known.push_back(ask.prompt);
    known.back().insert(
        known.back().end(), expected.back().tokens.begin(), expected.back().tokens.end());
  }
  struct Setting {
    const char* what;
    EngineOptions options;
  };
  for (const auto& [what, options] : {Setting{"alone", with(1, 4096, 4096, false)},
                                      Setting{"batch", with(16, 4096, 8192, true)},
                                      Setting{"small chunks", with(8, 17, 8192, false)},
                                      Setting{"preemption", with(12, 4096, 512, true)}}) {
    const auto engine = start(GetParam(), options, known);
    for (int again = 0; again < 2; ++again) {  // the second time prefixes are found
      const auto answers = answer(*engine, asks);
      for (size_t i = 0; i < asks.size(); ++i) {
        EXPECT_EQ(answers[i], expected[i]) << what << " " << i;
      }
    }
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.preemptions > 0, options.kv_cache_tokens == 512) << what;
    EXPECT_EQ(stats.blocks_referenced, 0) << what;
    EXPECT_GT(stats.accepted_drafts, 50) << what;
    EXPECT_GT(stats.draft_tokens - stats.accepted_drafts, 50) << what;
    int64_t by_place = 0;
    for (const int64_t accepted : stats.accepted_at) by_place += accepted;
    EXPECT_EQ(by_place, stats.accepted_drafts) << what;
  }
}

TEST_P(EngineWithModel, GivesTheSameAnswersWithNgramDrafts) {
  const auto alone = start(GetParam(), with(1, 4096, 4096, false));
  auto asks = some_asks(alone->model().config().vocab_size);
  for (Ask& ask : asks) ask.prompt.resize(std::min<size_t>(ask.prompt.size(), 30));
  for (Ask& ask : asks) ask.sampling.max_tokens = 200;  // greedy ones begin to repeat themselves
  EngineOptions options = with(16, 100, 8192, true);
  options.speculation = {.method = DraftMethod::kNgram,
                         .num_speculative_tokens = 4,
                         .prompt_lookup_max = 3,
                         .prompt_lookup_min = 1};
  const auto engine = start(GetParam(), options);
  const auto answers = answer(*engine, asks);
  for (size_t i = 0; i < asks.size(); ++i) {
    EXPECT_EQ(answers[i], answer(*alone, {asks[i]})[0]) << i;
  }
  EXPECT_GT(engine->stats().accepted_drafts, 0);
  EXPECT_GT(engine->stats().draft_tokens, engine->stats().accepted_drafts);
}

TEST_P(EngineWithModel, GivesTheSameAnswersAfterAPrefixHit) {
  const auto engine = start(GetParam(), with(4, 64, 16384, true));
  const auto asks = some_asks(engine->model().config().vocab_size);
  for (const Ask& ask : asks) {
    const Answer miss = answer(*engine, {ask})[0];
    EXPECT_EQ(miss.usage.cached_tokens, 0);
    const Answer hit = answer(*engine, {ask})[0];
    EXPECT_EQ(hit, miss);
    EXPECT_EQ(hit.usage.cached_tokens, static_cast<int32_t>((ask.prompt.size() - 1) / 64 * 64));
  }
}

INSTANTIATE_TEST_SUITE_P(
    TinyModels,
    EngineWithModel,
    ::testing::Values("glm-dsa-list", "deepseek-v32", "glm4-moe-lite", "qwen3"),
    [](const auto& param) {
      std::string name = param.param;
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace baton
