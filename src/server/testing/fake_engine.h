// For tests: an engine that plays token lists on a thread of its own, in pieces of any size, and
// obeys limits and cancellation as the real one does. No model, no device.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace baton {

class FakeEngine final : public Engine {
 public:
  static constexpr int32_t kEos = 1002;  // <|endoftext|> of the tiny tokenizer
  struct Play {
    std::vector<int32_t> tokens;
    size_t piece = 1;  // tokens per delivery
    std::chrono::milliseconds step{0};
    std::chrono::milliseconds prefill{0};
    int fail_at = -1;  // index of the token that fails with an error
    bool forever = false;
  };
  using Script = std::function<Play(const Request&)>;

  explicit FakeEngine(Script script) : script_(std::move(script)) {
    thread_ = std::thread([this] { run(); });
  }
  ~FakeEngine() override {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Status submit(Request request) override {
    const std::scoped_lock lock(mutex_);
    if (!is_alive) return Error{ErrorCode::kUnavailable, "the engine has stopped"};
    if (refuse_all) return resource_exhausted("the queue is full");
    last_sampling = request.sampling;
    Running running;
    running.play = script_(request);
    running.due = Clock::now() + running.play.prefill;
    running.request = std::move(request);
    running_.push_back(std::move(running));
    changed_.notify_all();
    return {};
  }

  void cancel(RequestId id, FinishReason reason) override {
    const std::scoped_lock lock(mutex_);
    for (Running& running : running_) {
      if (running.request.id == id) running.cancelled = reason;
    }
    ++cancels;
    changed_.notify_all();
  }

  EngineStats stats() const override {
    const std::scoped_lock lock(mutex_);
    EngineStats stats;
    stats.running = static_cast<int64_t>(running_.size());
    stats.waiting = waiting;
    stats.blocks_total = 100;
    stats.blocks_referenced = stats.running;
    return stats;
  }
  const Model& model() const override { std::abort(); }
  const MemoryPlan& memory_plan() const override { return plan_; }
  double seconds_since_progress() const override { return stalled_seconds; }
  bool alive() const override { return is_alive; }
  bool idle() const override {
    const std::scoped_lock lock(mutex_);
    return running_.empty();
  }

  std::atomic<double> stalled_seconds = 0.0;
  std::atomic<bool> is_alive = true;
  std::atomic<bool> refuse_all = false;
  std::atomic<int64_t> waiting = 0;
  std::atomic<int> cancels = 0;
  SamplingParams last_sampling;  // of the last request; read when nothing runs

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    Request request;
    Play play;
    size_t next = 0;
    int32_t sent = 0;
    bool first = true;
    Clock::time_point due;
    std::optional<FinishReason> cancelled;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      std::list<std::pair<std::function<void(StreamUpdate &&)>, StreamUpdate>> out;
      const auto now = Clock::now();
      auto next_due = now + std::chrono::milliseconds(50);
      for (auto running = running_.begin(); running != running_.end();) {
        if (stopping_) running->cancelled = FinishReason::kAbort;
        if (running->due > now && !running->cancelled) {
          next_due = std::min(next_due, running->due);
          ++running;
          continue;
        }
        StreamUpdate update = step(*running);
        running->due = now + running->play.step;
        next_due = std::min(next_due, running->due);
        const bool done = update.finish.has_value();
        out.emplace_back(running->request.deliver, std::move(update));
        running = done ? running_.erase(running) : std::next(running);
      }
      if (out.empty()) {
        if (stopping_) return;
        changed_.wait_until(lock, next_due);
        continue;
      }
      lock.unlock();
      for (auto& [deliver, update] : out) deliver(std::move(update));
      out.clear();
      lock.lock();
    }
  }

  StreamUpdate step(Running& running) {
    StreamUpdate update;
    const SamplingParams& sampling = running.request.sampling;
    if (running.first && sampling.prompt_logprobs >= 0) {
      for (size_t i = 1; i < running.request.prompt.size(); ++i) {
        update.prompt_logprobs.push_back(token(running.request.prompt[i], sampling));
      }
    }
    running.first = false;
    if (running.cancelled) {
      update.finish = finish(running, *running.cancelled);
      return update;
    }
    std::optional<FinishReason> end;
    std::optional<int32_t> stop_token;
    for (size_t i = 0; i < std::max<size_t>(running.play.piece, 1) && !end; ++i) {
      if (running.sent >= sampling.max_tokens) {
        end = FinishReason::kLength;
      } else if (static_cast<int>(running.next) == running.play.fail_at) {
        end = FinishReason::kError;
      } else if (running.next >= running.play.tokens.size()) {
        end = FinishReason::kStop;
      } else {
        const int32_t id = running.play.tokens[running.next++];
        update.tokens.push_back(token(id, sampling));
        ++running.sent;
        if (id == kEos || std::ranges::count(sampling.stop_token_ids, id) > 0) {
          end = FinishReason::kStop;
          stop_token = id;
          break;
        }
        if (running.play.forever && running.next == running.play.tokens.size()) running.next = 0;
        if (running.sent >= sampling.max_tokens) end = FinishReason::kLength;
      }
    }
    if (end) {
      update.finish = finish(running, *end);
      update.finish->stop_token = stop_token;
    }
    return update;
  }

  static OutputToken token(int32_t id, const SamplingParams& sampling) {
    OutputToken out{.token = id, .logprob = -0.5F};
    for (int i = 0; i < sampling.logprobs; ++i)
      out.top.push_back({id + i, -0.5F - static_cast<float>(i)});
    return out;
  }

  static Finish finish(const Running& running, FinishReason reason) {
    Finish finish;
    finish.reason = reason;
    finish.usage.prompt_tokens = static_cast<int32_t>(running.request.prompt.size());
    finish.usage.cached_tokens = 2;
    finish.usage.output_tokens = running.sent;
    if (reason == FinishReason::kError) finish.error = internal_error("the device failed");
    return finish;
  }

  const Script script_;
  MemoryPlan plan_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Running> running_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace baton
