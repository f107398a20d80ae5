#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>

#include "kernels/tables.h"
#include "model/architectures/scripted.h"

namespace baton {
namespace {

constexpr int32_t kEos = 2;

// Collects what one request delivers; the test thread waits for its end.
class Client {
 public:
  std::function<void(StreamUpdate&&)> receiver() {
    return [this](StreamUpdate&& update) {
      const std::scoped_lock lock(mutex_);
      EXPECT_FALSE(finish_.has_value()) << "delivery after the end";
      for (auto& token : update.tokens) tokens_.push_back(token);
      pieces_.push_back(update.tokens.size());
      if (!update.prompt_logprobs.empty()) prompt_logprobs_ = update.prompt_logprobs;
      if (update.finish) finish_ = update.finish;
      changed_.notify_all();
    };
  }
  const Finish& wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return finish_.has_value(); }));
    return *finish_;
  }
  void wait_for_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(
        lock, std::chrono::seconds(60), [&] { return finish_ || tokens_.size() >= count; }));
  }
  bool finished() {
    const std::scoped_lock lock(mutex_);
    return finish_.has_value();
  }
  std::vector<int32_t> ids() {
    wait();
    std::vector<int32_t> ids;
    for (const auto& token : tokens_) ids.push_back(token.token);
    return ids;
  }
  const std::vector<OutputToken>& tokens() const { return tokens_; }
  const std::vector<OutputToken>& prompt_logprobs() const { return prompt_logprobs_; }
  const std::vector<size_t>& pieces() const { return pieces_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<OutputToken> tokens_, prompt_logprobs_;
  std::vector<size_t> pieces_;
  std::optional<Finish> finish_;
};

ScriptedOptions history() {
  ScriptedOptions options;
  options.mode = ScriptedMode::kHistory;
  options.vocab_size = 500;
  options.eos_token_ids = {kEos};
  options.max_position_embeddings = 512;
  return options;
}

ScriptedOptions script(std::vector<int32_t> tokens) {
  ScriptedOptions options = history();
  options.mode = ScriptedMode::kScript;
  options.scripts = {{.tokens = std::move(tokens), .when = {}}};
  return options;
}

std::unique_ptr<Engine> start(ScriptedOptions model, EngineOptions options = {}) {
  if (options.kv_cache_tokens == 0) options.kv_cache_tokens = 64 * 64;
  auto engine = Engine::create(make_scripted_model(std::move(model)),
                               open_device("cpu", 1).value(),
                               reference_kernels(),
                               options);
  EXPECT_TRUE(engine) << engine.error().message;
  return engine ? *std::move(engine) : nullptr;
}

Request request(RequestId id,
                std::vector<int32_t> prompt,
                Client& client,
                int32_t max_tokens = 10) {
  Request made;
  made.id = id;
  made.prompt = std::move(prompt);
  made.sampling.temperature = 0.0F;
  made.sampling.max_tokens = max_tokens;
  made.deliver = client.receiver();
  return made;
}

std::vector<int32_t> numbered(size_t count, int32_t first = 3) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = (first + static_cast<int32_t>(i)) % 500;
  return tokens;
}

std::vector<int32_t> expected_history(std::vector<int32_t> tokens, int32_t count) {
  const size_t prompt = tokens.size();
  for (int32_t i = 0; i < count; ++i) tokens.push_back(scripted_history_token(history(), tokens));
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
}

TEST(Engine, PlaysAScriptToItsEnd) {
  const auto engine = start(script({10, 11, 12}));
  Client client;
  ASSERT_TRUE(engine->submit(request(1, numbered(5), client)));
  const Finish& finish = client.wait();
  EXPECT_EQ(client.ids(), (std::vector<int32_t>{10, 11, 12}));
  EXPECT_EQ(finish.reason, FinishReason::kStop);
  EXPECT_EQ(finish.stop_token, kEos);
  EXPECT_EQ(finish.usage.prompt_tokens, 5);
  EXPECT_EQ(finish.usage.output_tokens, 3);
  EXPECT_EQ(client.pieces(), (std::vector<size_t>{1, 1, 1, 0}));
  EXPECT_TRUE(engine->idle());
}

TEST(Engine, GivesTheSameTokensInSmallChunksInABatchAndWithAFullPool) {
  for (const int32_t budget : {16, 64, 4096}) {
    for (const int64_t pool_tokens : {512, 4096}) {
      EngineOptions options;
      options.max_num_seqs = 8;
      options.max_num_batched_tokens = budget;
      options.kv_cache_tokens = pool_tokens;
      const auto engine = start(history(), options);
      std::vector<Client> clients(20);
      for (size_t i = 0; i < clients.size(); ++i) {
        ASSERT_TRUE(engine->submit(
            request(i, numbered(20 + i * 9, static_cast<int32_t>(i % 3)), clients[i], 80)));
      }
      for (size_t i = 0; i < clients.size(); ++i) {
        EXPECT_EQ(clients[i].ids(),
                  expected_history(numbered(20 + i * 9, static_cast<int32_t>(i % 3)), 80));
      }
      EXPECT_EQ(engine->stats().preemptions > 0, pool_tokens == 512);
      EXPECT_EQ(engine->stats().blocks_referenced, 0);
    }
  }
}

}  // namespace
}  // namespace baton
