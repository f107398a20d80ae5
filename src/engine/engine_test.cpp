#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "engine/testing/answers.h"
#include "kernels/tables.h"
#include "model/architectures/scripted.h"

namespace baton {
namespace {

using testing::start;

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
  EXPECT_EQ(client.ids(), (std::vector<int32_t>{10, 11, 12, kEos}));
  EXPECT_EQ(finish.reason, FinishReason::kStop);
  EXPECT_EQ(finish.stop_token, kEos);
  EXPECT_EQ(finish.usage.prompt_tokens, 5);
  EXPECT_EQ(finish.usage.output_tokens, 4);
  EXPECT_EQ(client.pieces(), (std::vector<size_t>{1, 1, 1, 1}));
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

TEST(Engine, DeliversTheFirstTokenAtOnceAndThenInPieces) {
  EngineOptions options;
  options.stream_interval = 3;
  const auto engine = start(script({10, 11, 12, 13, 14, 15, 16, 17}), options);
  Client client;
  ASSERT_TRUE(engine->submit(request(1, numbered(5), client)));
  client.wait();
  EXPECT_EQ(client.ids(), (std::vector<int32_t>{10, 11, 12, 13, 14, 15, 16, 17, kEos}));
  EXPECT_EQ(client.pieces(), (std::vector<size_t>{1, 3, 3, 2}));
}

TEST(Engine, EndsAtStopIdsEosAndLimits) {
  const auto engine = start(script({10, 11, 12, 13}));
  Client stop, held, length, eos;
  Request with_stop = request(1, numbered(5), stop);
  with_stop.sampling.stop_token_ids = {12};
  Request with_min = request(2, numbered(5), held);
  with_min.sampling.stop_token_ids = {12};
  with_min.sampling.min_tokens = 4;  // 12 is banned at index 2: token 0 is the next best
  Request ignoring = request(3, numbered(5), eos, 6);
  ignoring.sampling.ignore_eos = true;
  ASSERT_TRUE(engine->submit(std::move(with_stop)));
  ASSERT_TRUE(engine->submit(std::move(with_min)));
  ASSERT_TRUE(engine->submit(std::move(ignoring)));
  ASSERT_TRUE(engine->submit(request(4, numbered(5), length, 2)));
  EXPECT_EQ(stop.ids(), (std::vector<int32_t>{10, 11, 12}));
  EXPECT_EQ(stop.wait().stop_token, 12);
  EXPECT_EQ(held.ids(), (std::vector<int32_t>{10, 11, 0, 13, kEos}));
  EXPECT_EQ(held.wait().reason, FinishReason::kStop);
  EXPECT_EQ(eos.ids(), (std::vector<int32_t>{10, 11, 12, 13, kEos, kEos}));
  EXPECT_EQ(eos.wait().reason, FinishReason::kLength);
  EXPECT_EQ(length.ids(), (std::vector<int32_t>{10, 11}));
  EXPECT_EQ(length.wait().reason, FinishReason::kLength);
}

TEST(Engine, EndsWithLengthAtTheContextLimitAndRefusesLongerPrompts) {
  const auto engine = start(history());
  Client almost, full;
  ASSERT_TRUE(engine->submit(request(1, numbered(510), almost, 100)));
  EXPECT_EQ(almost.ids().size(), 2U);
  EXPECT_EQ(almost.wait().reason, FinishReason::kLength);
  for (const size_t length : {512U, 513U, 5000U}) {
    const Status status = engine->submit(request(2, numbered(length), full));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, ::testing::HasSubstr(std::to_string(length)));
    EXPECT_THAT(status.error().message, ::testing::HasSubstr("512"));
  }
  EXPECT_TRUE(engine->alive());
}

TEST(Engine, EndsOnlyTheRequestWhoseLogitsAreNotNumbers) {
  ScriptedOptions options = script({10, 11, 12, 13, 14, 15});
  options.scripts.push_back({.tokens = {20, 21, 22, 23}, .when = {7}, .nan_at = 2});
  options.scripts.push_back({.tokens = {30, 31, 32, 33}, .when = {8}, .nan_at = -1, .inf_at = 3});
  for (const float temperature : {0.0F, 1.0F}) {
    const auto engine = start(options);
    std::vector<Client> clients(4);
    const std::vector<std::vector<int32_t>> prompts{{3, 4}, {3, 7}, {3, 8}, {3, 5}};
    for (size_t i = 0; i < 4; ++i) {
      Request made = request(i, prompts[i], clients[i]);
      made.sampling.temperature = temperature;
      ASSERT_TRUE(engine->submit(std::move(made)));
    }
    EXPECT_EQ(clients[0].ids(), (std::vector<int32_t>{10, 11, 12, 13, 14, 15, kEos}));
    EXPECT_EQ(clients[3].ids(), (std::vector<int32_t>{10, 11, 12, 13, 14, 15, kEos}));
    EXPECT_EQ(clients[1].ids(), (std::vector<int32_t>{20, 21}));
    EXPECT_EQ(clients[2].ids(), (std::vector<int32_t>{30, 31, 32}));
    for (const size_t bad : {1U, 2U}) {
      EXPECT_EQ(clients[bad].wait().reason, FinishReason::kError);
      EXPECT_THAT(clients[bad].wait().error->message, ::testing::HasSubstr("not finite"));
    }
    EXPECT_EQ(engine->stats().finished_error, 2);
    EXPECT_TRUE(engine->alive());
  }
}

TEST(Engine, GivesLogprobsOfOutputAndPrompt) {
  EngineOptions options;
  options.max_num_seqs = 4;
  const auto engine = start(history(), options);
  Client first, client;
  ASSERT_TRUE(engine->submit(request(1, numbered(300), first, 3)));
  first.wait();
  Request made = request(2, numbered(300), client, 3);  // more prompt tokens than logit rows
  made.sampling.logprobs = 2;
  made.sampling.prompt_logprobs = 1;
  ASSERT_TRUE(engine->submit(std::move(made)));
  EXPECT_EQ(client.ids(), first.ids());
  EXPECT_EQ(client.wait().usage.cached_tokens, 0);  // every prompt logit had to be computed
  for (const auto& token : client.tokens()) {
    EXPECT_NEAR(token.logprob, 0.0F, 1e-6F);
    ASSERT_EQ(token.top.size(), 2U);
    EXPECT_EQ(token.top[0].token, token.token);
  }
  ASSERT_EQ(client.prompt_logprobs().size(), 299U);
  std::vector<int32_t> tokens{numbered(300)[0]};
  for (size_t i = 0; i + 1 < 300; ++i) {
    const OutputToken& logprob = client.prompt_logprobs()[i];
    EXPECT_EQ(logprob.token, numbered(300)[i + 1]);
    ASSERT_EQ(logprob.top.size(), 1U);
    EXPECT_EQ(logprob.top[0].token, scripted_history_token(history(), tokens)) << i;
    tokens.push_back(logprob.token);
  }
}

TEST(Engine, ReportsReusedPrefixes) {
  const auto engine = start(history());
  for (const int32_t expected : {0, 192}) {
    Client client;
    ASSERT_TRUE(engine->submit(request(1, numbered(200), client, 5)));
    EXPECT_EQ(client.wait().usage.cached_tokens, expected);
    EXPECT_EQ(client.ids(), expected_history(numbered(200), 5));
  }
  EXPECT_EQ(engine->stats().prefix_cache_queries, 400);
  EXPECT_EQ(engine->stats().prefix_cache_hits, 192);
  EXPECT_EQ(engine->stats().prompt_tokens, 400);
  EXPECT_EQ(engine->stats().generation_tokens, 10);
  EXPECT_EQ(engine->stats().blocks_referenced, 0);  // cached blocks are not in use
  EXPECT_EQ(engine->stats().blocks_cached, 3);
  EngineOptions off;
  off.enable_prefix_caching = false;
  const auto without = start(history(), off);
  for (int i = 0; i < 2; ++i) {
    Client client;
    ASSERT_TRUE(without->submit(request(1, numbered(200), client, 5)));
    EXPECT_EQ(client.wait().usage.cached_tokens, 0);
  }
  EXPECT_EQ(without->stats().blocks_cached, 0);
}

TEST(Engine, CancelsInEveryState) {
  ScriptedOptions slow = history();
  slow.step_delay_ms = 1.0;
  slow.prefill_token_delay_ms = 0.5;
  EngineOptions options;
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = 8;
  const auto engine = start(slow, options);
  Client decoding, prefilling, queued, stopped;
  Request endless = request(1, numbered(5), decoding, 500);
  ASSERT_TRUE(engine->submit(std::move(endless)));
  decoding.wait_for_tokens(2);
  ASSERT_TRUE(engine->submit(request(2, numbered(400), prefilling, 500)));
  ASSERT_TRUE(engine->submit(request(3, numbered(5), queued)));
  EXPECT_FALSE(engine->idle());
  engine->cancel(3);
  EXPECT_EQ(queued.wait().reason, FinishReason::kAbort);
  EXPECT_EQ(queued.wait().usage.output_tokens, 0);
  engine->cancel(1);
  EXPECT_EQ(decoding.wait().reason, FinishReason::kAbort);
  EXPECT_EQ(static_cast<size_t>(decoding.wait().usage.output_tokens), decoding.ids().size());
  while (engine->stats().running == 0) std::this_thread::yield();
  engine->cancel(2);
  EXPECT_EQ(prefilling.wait().reason, FinishReason::kAbort);
  ASSERT_TRUE(engine->submit(request(4, numbered(5), stopped, 500)));
  stopped.wait_for_tokens(1);
  engine->cancel(4, FinishReason::kStop);
  EXPECT_EQ(stopped.wait().reason, FinishReason::kStop);
  engine->cancel(99);
  engine->cancel(4);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.finished_abort, 3);
  EXPECT_EQ(stats.finished_stop, 1);
  EXPECT_EQ(stats.blocks_referenced, 0);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_TRUE(engine->idle());
}

TEST(Engine, RefusesAtOnceWhenTheQueueIsFull) {
  ScriptedOptions slow = history();
  slow.step_delay_ms = 2.0;
  EngineOptions options;
  options.max_num_seqs = 1;
  options.max_queued_requests = 10;
  const auto engine = start(slow, options);
  Client first;
  ASSERT_TRUE(engine->submit(request(1000, numbered(5), first, 400)));
  first.wait_for_tokens(1);
  std::vector<Client> clients(200);
  int refused = 0;
  for (size_t i = 0; i < clients.size(); ++i) {
    const Status status = engine->submit(request(i, numbered(5), clients[i], 1));
    if (status) continue;
    ++refused;
    EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  }
  EXPECT_EQ(refused, 190);
  engine->cancel(1000);
  for (size_t i = 0; i < 10; ++i) clients[i].wait();
  Client after;
  EXPECT_TRUE(engine->submit(request(2000, numbered(5), after, 1)));
  after.wait();
}

TEST(Engine, LimitsQueuedTokensButTakesOneLargePromptWhenNothingWaits) {
  ScriptedOptions slow = history();
  slow.step_delay_ms = 2.0;
  EngineOptions options;
  options.max_num_seqs = 1;
  options.max_queued_tokens = 100;
  const auto engine = start(slow, options);
  Client first, large, refused;
  ASSERT_TRUE(engine->submit(request(1, numbered(300), first, 200)));
  first.wait_for_tokens(1);
  ASSERT_TRUE(engine->submit(request(2, numbered(300), large, 1)));
  const Status status = engine->submit(request(3, numbered(5), refused, 1));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  engine->cancel(1);
  large.wait();
}

TEST(Engine, OutlivesDeliverFunctionsThatThrow) {
  const auto engine = start(history());
  Client other;
  Request throwing = request(1, numbered(5), other);
  throwing.deliver = [](StreamUpdate&&) { throw std::runtime_error("gone"); };
  ASSERT_TRUE(engine->submit(std::move(throwing)));
  ASSERT_TRUE(engine->submit(request(2, numbered(5), other)));
  EXPECT_EQ(other.ids(), expected_history(numbered(5), 10));
  while (!engine->idle()) std::this_thread::yield();
  EXPECT_EQ(engine->stats().finished_abort, 1);
}

TEST(Engine, RefusesAnIdThatIsInUse) {
  ScriptedOptions slow = history();
  slow.step_delay_ms = 1.0;
  const auto engine = start(slow);
  Client first, second;
  ASSERT_TRUE(engine->submit(request(1, numbered(5), first, 100)));
  first.wait_for_tokens(1);
  ASSERT_TRUE(engine->submit(request(1, numbered(5), second, 100)));
  EXPECT_EQ(second.wait().reason, FinishReason::kError);
  EXPECT_EQ(first.ids().size(), 100U);
}

TEST(Engine, AbortsWhatIsOpenWhenItIsDestroyed) {
  ScriptedOptions slow = history();
  slow.step_delay_ms = 1.0;
  EngineOptions options;
  options.max_num_seqs = 2;
  auto engine = start(slow, options);
  std::vector<Client> clients(6);
  for (size_t i = 0; i < clients.size(); ++i) {
    ASSERT_TRUE(engine->submit(request(i, numbered(5), clients[i], 400)));
  }
  clients[0].wait_for_tokens(1);
  engine.reset();
  for (Client& client : clients) EXPECT_EQ(client.wait().reason, FinishReason::kAbort);
}

TEST(Engine, CountsEveryEnd) {
  ScriptedOptions slow = script({10, 11, 12, 13});
  slow.step_delay_ms = 1.0;
  const auto engine = start(slow);
  std::vector<Client> clients(9);
  for (size_t i = 0; i < 9; ++i) {  // 4 stop, 3 length, 2 are cancelled
    Request made = request(i, numbered(5), clients[i], i < 4 ? 10 : i < 7 ? 2 : 400);
    made.sampling.ignore_eos = i >= 7;
    ASSERT_TRUE(engine->submit(std::move(made)));
  }
  engine->cancel(7);
  engine->cancel(8);
  for (Client& client : clients) client.wait();
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.finished_stop, 4);
  EXPECT_EQ(stats.finished_length, 3);
  EXPECT_EQ(stats.finished_abort, 2);
  EXPECT_EQ(stats.finished_error, 0);
}

// A queue whose device fails when told to.
class FailingQueue final : public Queue {
 public:
  explicit FailingQueue(const std::atomic<bool>& broken) : broken_(broken) {}
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, uint8_t value, size_t bytes) override { std::memset(to, value, bytes); }
  Status synchronize() override {
    if (broken_) return internal_error("the device fell off the bus");
    return {};
  }
  std::unique_ptr<Event> record() override { return nullptr; }
  bool supports_graphs() const override { return false; }
  Status begin_capture() override { return unsupported("no"); }
  Result<std::unique_ptr<Graph>> end_capture() override { return unsupported("no"); }
  void replay(const Graph&) override {}

 private:
  const std::atomic<bool>& broken_;
};

class FailingDevice final : public Device {
 public:
  explicit FailingDevice(const std::atomic<bool>& broken) : broken_(broken) {}
  std::string_view name() const override { return "failing"; }
  std::string description() const override { return "fails"; }
  DeviceMemory memory() const override { return cpu_->memory(); }
  bool host_addressable() const override { return true; }
  Result<Buffer> allocate(size_t bytes) override { return cpu_->allocate(bytes); }
  Result<Buffer> allocate_host(size_t bytes) override { return cpu_->allocate(bytes); }
  Result<std::unique_ptr<Queue>> create_queue() override {
    return std::unique_ptr<Queue>(std::make_unique<FailingQueue>(broken_));
  }

 private:
  const std::atomic<bool>& broken_;
  std::unique_ptr<Device> cpu_ = open_device("cpu", 1).value();
};

TEST(Engine, EndsWithTheDeviceAndTellsEveryone) {
  std::atomic<bool> broken{false};
  ScriptedOptions slow = history();
  slow.step_delay_ms = 1.0;
  EngineOptions options;
  options.kv_cache_tokens = 4096;
  options.max_num_seqs = 2;
  auto engine = Engine::create(make_scripted_model(slow),
                               std::make_unique<FailingDevice>(broken),
                               reference_kernels(),
                               options);
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_LT((*engine)->seconds_since_progress(), 10.0);
  std::vector<Client> clients(5);
  for (size_t i = 0; i < clients.size(); ++i) {
    ASSERT_TRUE((*engine)->submit(request(i, numbered(5), clients[i], 400)));
  }
  clients[0].wait_for_tokens(1);
  broken = true;
  for (Client& client : clients) {
    EXPECT_EQ(client.wait().reason, FinishReason::kError);
    EXPECT_THAT(client.wait().error->message, ::testing::HasSubstr("fell off the bus"));
  }
  EXPECT_FALSE((*engine)->alive());
  EXPECT_TRUE((*engine)->idle());
  const double before = (*engine)->seconds_since_progress();
  Client late;
  const Status status = (*engine)->submit(request(9, numbered(5), late));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_GE((*engine)->seconds_since_progress(), before);
}

// Many threads at once; run under TSan as well.
void take_requests_and_cancels_from_many_threads(const ScriptedOptions& model) {
  EngineOptions options;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 64;
  options.kv_cache_tokens = 640;
  const auto engine = start(model, options);
  constexpr size_t kThreads = 4, kEach = 40;
  std::vector<Client> clients(kThreads * kEach);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kEach; ++i) {
        const size_t id = t * kEach + i;
        EXPECT_TRUE(engine->submit(
            request(id, numbered(10 + id % 90, static_cast<int32_t>(id % 5)), clients[id], 30)));
        if (i % 3 == 0) engine->cancel(id);
        (void)engine->stats();
        (void)engine->seconds_since_progress();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t id = 0; id < clients.size(); ++id) {
    const Finish& finish = clients[id].wait();
    const auto expected =
        expected_history(numbered(10 + id % 90, static_cast<int32_t>(id % 5)), 30);
    const auto got = clients[id].ids();
    EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin())) << id;
    EXPECT_TRUE(finish.reason == FinishReason::kAbort || got.size() == 30U);
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.blocks_referenced, 0);
  EXPECT_EQ(stats.finished_length + stats.finished_abort, static_cast<int64_t>(clients.size()));
}

TEST(Engine, TakesRequestsAndCancelsFromManyThreads) {
  ScriptedOptions model = history();
  take_requests_and_cancels_from_many_threads(model);
  model.tokens_per_step = 4;
  model.wrong_draft_every = 3;
  take_requests_and_cancels_from_many_threads(model);
}

}  // namespace
}  // namespace baton
