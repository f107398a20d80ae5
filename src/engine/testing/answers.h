// For tests of the engine: starts one, submits requests and waits for what each of them gets.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "kernels/tables.h"
#include "model/architectures/scripted.h"

namespace baton::testing {

// A scripted model on one CPU thread, with 64 blocks of KV unless the options say otherwise.
inline std::unique_ptr<Engine> start(ScriptedOptions model, EngineOptions options = {}) {
  if (options.kv_cache_tokens == 0) options.kv_cache_tokens = 64 * 64;
  auto engine = Engine::create(make_scripted_model(std::move(model)),
                               open_device("cpu", 1).value(),
                               reference_kernels(),
                               options);
  EXPECT_TRUE(engine) << engine.error().message;
  return engine ? *std::move(engine) : nullptr;
}

struct Ask {
  std::vector<int32_t> prompt;
  SamplingParams sampling = {};
};

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<size_t> pieces;  // tokens of each delivery
  RequestUsage usage;
  FinishReason reason = FinishReason::kError;
  std::optional<int32_t> stop_token;

  // The same output; when it came and what was reused may differ.
  bool operator==(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && reason == other.reason &&
           stop_token == other.stop_token && usage.output_tokens == other.usage.output_tokens;
  }
};

// All at once. Requests get the ids first_id, first_id + 1, ...
inline std::vector<Answer> answer(Engine& engine,
                                  const std::vector<Ask>& asks,
                                  RequestId first_id = 1) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    size_t done = 0;
    std::vector<Answer> answers;
  };
  const auto shared = std::make_shared<Shared>();
  shared->answers.resize(asks.size());
  for (size_t i = 0; i < asks.size(); ++i) {
    Request request;
    request.id = first_id + i;
    request.prompt = asks[i].prompt;
    request.sampling = asks[i].sampling;
    request.deliver = [shared, i](StreamUpdate&& update) {
      const std::scoped_lock lock(shared->mutex);
      Answer& into = shared->answers[i];
      into.pieces.push_back(update.tokens.size());
      for (const auto& token : update.tokens) {
        into.tokens.push_back(token.token);
        into.logprobs.push_back(token.logprob);
      }
      if (!update.finish) return;
      into.usage = update.finish->usage;
      into.reason = update.finish->reason;
      into.stop_token = update.finish->stop_token;
      ++shared->done;
      shared->changed.notify_all();
    };
    const Status status = engine.submit(std::move(request));
    EXPECT_TRUE(status) << status.error().message;
  }
  std::unique_lock lock(shared->mutex);
  EXPECT_TRUE(shared->changed.wait_for(
      lock, std::chrono::seconds(300), [&] { return shared->done == asks.size(); }));
  return shared->answers;
}

}  // namespace baton::testing
