// The engine with real (tiny) models: the same request and seed give the same tokens and
// logprobs alone, in a batch, in small chunks, after a prefix hit and after preemption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <random>

#include "engine/engine.h"
#include "kernels/tables.h"

namespace baton {
namespace {

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  RequestUsage usage;
  FinishReason reason = FinishReason::kError;

  bool operator==(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && reason == other.reason;
  }
};

struct Ask {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
};

std::unique_ptr<Engine> start(const std::string& name,
                              const EngineOptions& options,
                              const std::string& table = "auto") {
  auto device = open_device("cpu", 2).value();
  auto kernels = table_for(*device, table);
  EXPECT_TRUE(kernels) << kernels.error().message;
  auto model = load_model("testdata/" + name, *device, {});
  if (!model) {
    ADD_FAILURE() << model.error().message;
    std::abort();
  }
  auto engine = Engine::create(*std::move(model), std::move(device), **kernels, options);
  EXPECT_TRUE(engine) << engine.error().message;
  return *std::move(engine);
}

std::vector<Answer> answer(Engine& engine, const std::vector<Ask>& asks) {
  static RequestId next_id = 0;
  std::mutex mutex;
  std::condition_variable changed;
  size_t done = 0;
  std::vector<Answer> answers(asks.size());
  for (size_t i = 0; i < asks.size(); ++i) {
    Request request;
    request.id = ++next_id;
    request.prompt = asks[i].prompt;
    request.sampling = asks[i].sampling;
    request.deliver = [&, i](StreamUpdate&& update) {
      const std::scoped_lock lock(mutex);
      for (const auto& token : update.tokens) {
        answers[i].tokens.push_back(token.token);
        answers[i].logprobs.push_back(token.logprob);
      }
      if (!update.finish) return;
      answers[i].usage = update.finish->usage;
      answers[i].reason = update.finish->reason;
      ++done;
      changed.notify_all();
    };
    const Status status = engine.submit(std::move(request));
    EXPECT_TRUE(status) << status.error().message;
  }
  std::unique_lock lock(mutex);
  EXPECT_TRUE(
      changed.wait_for(lock, std::chrono::seconds(300), [&] { return done == asks.size(); }));
  return answers;
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

class EngineWithModel : public testing::TestWithParam<const char*> {};

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

INSTANTIATE_TEST_SUITE_P(TinyModels,
                         EngineWithModel,
                         testing::Values("glm-dsa-list", "deepseek-v32", "glm4-moe-lite", "qwen3"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace baton
