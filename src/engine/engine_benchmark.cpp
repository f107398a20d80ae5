// What one decode step costs the host besides the model: plan, stage, sample, publish, commit.
// "Engine alone" is with a model that does nothing; the scripted model's rows include its own
// work and, with a temperature, the host sampler.
//
//   build/release/src/engine/engine_benchmark
#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <vector>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "kernels/tables.h"
#include "model/architectures/scripted.h"

namespace baton {
namespace {

using Clock = std::chrono::steady_clock;

// A model that does nothing at all: the argmax below says token 1, always.
class EmptyModel final : public Model {
 public:
  explicit EmptyModel(int64_t vocab_size)
      : layout_(make_block_layout({LayerCache::kPlain},
                                  {},
                                  {},
                                  {.format = PlainRowFormat::kF32, .kv_heads = 1, .head_dim = 2})) {
    config_.vocab_size = vocab_size;
    config_.max_position_embeddings = 1 << 20;
  }
  const ModelConfig& config() const override { return config_; }
  const BlockLayout& block_layout() const override { return layout_; }
  void forward(ForwardContext&) const override {}

 private:
  BlockLayout layout_;
  ModelConfig config_;
};

void always_one(Queue&, const ArgmaxArgs& args) {
  std::fill_n(args.out.as<int32_t>(), args.out.dim(0), 1);
}

struct StepCost {
  double cpu_us = 0.0;   // process CPU time: right on a busy machine too
  double wall_us = 0.0;  // what a client would see; includes waiting for a core
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The main thread sleeps and the device has no workers: the process's CPU time is the engine
// thread's. Taken from the first step that decodes the whole batch to the last.
StepCost measure(std::unique_ptr<Model> model,
                 const KernelTable& kernels,
                 int32_t batch,
                 size_t prompt_tokens,
                 float temperature,
                 int32_t output_tokens) {
  EngineOptions options;
  options.max_model_len = static_cast<int32_t>(prompt_tokens) + output_tokens + 64;
  options.max_num_batched_tokens = 1 << 20;
  auto engine = Engine::create(std::move(model), open_device("cpu", 1).value(), kernels, options);
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().message.c_str());
    std::exit(1);
  }
  std::mutex mutex;
  std::condition_variable changed;
  int32_t started = 0, open = batch;
  int64_t generated = 0;
  double cpu_from = 0.0, cpu_to = 0.0;
  Clock::time_point wall_from, wall_to;
  for (int32_t i = 0; i < batch; ++i) {
    Request request;
    request.id = static_cast<RequestId>(i);
    request.prompt.assign(prompt_tokens, 2 + i);
    request.sampling.temperature = temperature;
    request.sampling.top_p = 0.95F;
    request.sampling.max_tokens = output_tokens;
    request.sampling.ignore_eos = true;
    request.deliver = [&, is_first = true](StreamUpdate&& update) mutable {
      if (is_first && ++started == batch) {
        cpu_from = cpu_seconds();
        wall_from = Clock::now();
      }
      is_first = false;
      if (!update.finish) return;
      const std::scoped_lock lock(mutex);
      cpu_to = cpu_seconds();
      wall_to = Clock::now();
      generated += update.finish->usage.output_tokens;
      if (--open == 0) changed.notify_one();
    };
    if (Status status = (*engine)->submit(std::move(request)); !status) {
      std::fprintf(stderr, "%s\n", status.error().message.c_str());
      std::exit(1);
    }
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return open == 0; });
  if (generated != static_cast<int64_t>(batch) * output_tokens) {
    std::fprintf(stderr,
                 "expected %d tokens each, got %lld in all\n",
                 output_tokens,
                 static_cast<long long>(generated));
    std::exit(1);
  }
  const double steps = output_tokens - 1;
  const double wall = std::chrono::duration<double>(wall_to - wall_from).count();
  return {(cpu_to - cpu_from) * 1e6 / steps, wall * 1e6 / steps};
}

void report(const char* what, int32_t batch, size_t prompt, const StepCost& cost) {
  std::printf("%-36s batch %3d  prompt %6zu  cpu %8.2f us per step (%6.2f per token)  wall %8.2f\n",
              what,
              batch,
              prompt,
              cost.cpu_us,
              cost.cpu_us / batch,
              cost.wall_us);
}

constexpr size_t kVocab = 154880;  // GLM-5's

// `peaked` as a model that is sure of a few tokens; without it, normally
// distributed logits with a standard deviation of 3, of which top_p 0.95 keeps 13,600 tokens.
std::vector<float> make_logits(bool peaked) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> logits(kVocab);
  for (float& value : logits) value = normal(random);
  if (peaked) {
    for (int i = 0; i < 20; ++i) logits[random() % kVocab] = 18.0F + normal(random);
  }
  return logits;
}

// The host sampler alone, one row.
void time_sampler(const char* what, const SamplingParams& sampling, bool peaked) {
  constexpr int kRows = 200;
  const std::vector<float> logits = make_logits(peaked);
  Sequence sequence;
  sequence.request.sampling = sampling;
  sequence.tokens = {1, 2, 3};
  sequence.prompt_tokens = 1;
  sequence.max_tokens = 1000;
  SamplerState state{.seed = 1, .prompt_tokens = {}, .output_counts = {}};
  double cpu = 0.0;
  for (int i = 0; i < kRows; ++i) {
    std::vector<float> row = logits;
    const double from = cpu_seconds();
    (void)sample(row, sequence, state, {});
    cpu += cpu_seconds() - from;
    sequence.tokens.push_back(1);
  }
  std::printf("host sampler, vocabulary %zu, %s logits, %-22s cpu %8.1f us per token\n",
              kVocab,
              peaked ? "peaked" : "normal",
              what,
              cpu * 1e6 / kRows);
}

// A step's worth of rows, shared by threads as in the engine.
void time_sampled_batch(int threads) {
  constexpr size_t kRows = 64;
  constexpr int kRounds = 20;
  const std::vector<float> logits = make_logits(/*peaked=*/true);
  std::vector<std::vector<float>> rows(kRows, logits);
  std::vector<SamplerState> states(kRows);
  Sequence sequence;
  sequence.request.sampling.top_p = 0.95F;
  std::vector<SampleJob> jobs;
  for (size_t i = 0; i < kRows; ++i) {
    states[i].seed = i;
    jobs.push_back({.logits = rows[i], .sequence = &sequence, .state = &states[i]});
  }
  ThreadPool pool(threads);
  sample_all(jobs, {}, &pool);
  const double cpu = cpu_seconds();
  const Clock::time_point from = Clock::now();
  for (int i = 0; i < kRounds; ++i) sample_all(jobs, {}, &pool);
  const double wall = std::chrono::duration<double>(Clock::now() - from).count();
  std::printf("host sampler, %zu peaked rows, top_p, %d threads  cpu %8.1f us  wall %8.1f us\n",
              kRows,
              threads,
              (cpu_seconds() - cpu) * 1e6 / kRounds,
              wall * 1e6 / kRounds);
}

void time_samplers(bool peaked) {
  SamplingParams sampling;
  sampling.temperature = 1.0F;
  time_sampler("temperature", sampling, peaked);
  sampling.top_p = 0.95F;
  time_sampler("temperature, top_p", sampling, peaked);
  sampling.top_k = 40;
  time_sampler("temp., top_p, top_k 40", sampling, peaked);
  sampling.temperature = 0.0F;
  sampling.logprobs = 5;
  time_sampler("greedy, 5 logprobs", sampling, peaked);
}

void run() {
  time_samplers(/*peaked=*/false);
  time_samplers(/*peaked=*/true);
  for (const int threads : {1, 2, 8}) time_sampled_batch(threads);
  KernelTable empty = planning_kernels();
  empty.argmax = &always_one;
  for (const int32_t batch : {1, 8, 64}) {
    for (const size_t prompt : {size_t{100}, size_t{10000}}) {
      report("engine alone, greedy",
             batch,
             prompt,
             measure(
                 std::make_unique<EmptyModel>(150000), empty, batch, prompt, 0.0F, 400000 / batch));
    }
  }
  ScriptedOptions scripted;
  scripted.mode = ScriptedMode::kCopy;
  scripted.vocab_size = 512;
  scripted.max_position_embeddings = 1 << 20;
  for (const int32_t batch : {1, 64}) {
    report(
        "scripted model (vocab 512), greedy",
        batch,
        100,
        measure(
            make_scripted_model(scripted), reference_kernels(), batch, 100, 0.0F, 200000 / batch));
    report(
        "scripted, temperature 1, top_p .95",
        batch,
        100,
        measure(
            make_scripted_model(scripted), reference_kernels(), batch, 100, 1.0F, 50000 / batch));
  }
}

}  // namespace
}  // namespace baton

int main() {
  baton::set_log(baton::LogLevel::kError, [](baton::LogLevel, std::string_view) {});
  baton::run();
  return 0;
}
