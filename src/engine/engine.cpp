#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/inbox.h"
#include "base/log.h"
#include "engine/memory_plan.h"
#include "engine/model_runner.h"
#include "engine/sampler.h"
#include "engine/speculation.h"
#include "engine/token_stream.h"
#include "kv_cache/block_pool.h"
#include "kv_cache/prefix_index.h"
#include "scheduler/admission.h"
#include "scheduler/scheduler.h"

namespace baton {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

double seconds(Time from, Time to) {
  return std::chrono::duration<double>(to - from).count();
}

struct NewRequest {
  Request request;
  Time submitted;
};
struct Cancel {
  RequestId id;
  FinishReason reason;
};
struct Stop {};
using EngineMessage = std::variant<NewRequest, Cancel, Stop>;

// The pool checks itself when the engine becomes idle, at most this often: the check looks at
// every block.
constexpr double kSecondsBetweenChecks = 1.0;

// What the engine keeps of a request beside its sequence.
struct Client {
  TokenStream stream;
  SamplerState sampler;
  DraftState drafting;
  std::vector<OutputToken> prompt_logprobs;  // [prompt - 1] when asked for
  Time submitted;
  std::optional<Time> scheduled, first_token, last_token;
  std::optional<Error> error;  // found while the sequence was only prefilling
  bool gone = false;           // its deliver function threw
};

class EngineThread final : public Engine {
 public:
  EngineThread(std::unique_ptr<Model> model,
               std::unique_ptr<Device> device,
               std::unique_ptr<Queue> queue,
               std::unique_ptr<ModelRunner> runner,
               const EnginePlan& plan,
               const EngineOptions& options)
      : options_(options),
        plan_(plan),
        device_(std::move(device)),
        model_(std::move(model)),
        queue_(std::move(queue)),
        runner_(std::move(runner)),
        pool_(static_cast<int32_t>(plan.memory.kv_blocks) + 1),
        index_(pool_),
        scheduler_(scheduler_limits(), pool_, index_),
        // The counters of submit() refuse before this is full; cancels are in it as well.
        inbox_(2 * static_cast<size_t>(options.max_queued_requests) + 1024) {
    note_progress();
    snapshot();
    thread_ = std::thread([this] { run(); });
  }

  ~EngineThread() override {
    inbox_.put_always(Stop{});
    thread_.join();
  }

  Status submit(Request request) override;
  void cancel(RequestId id, FinishReason reason) override { inbox_.put_always(Cancel{id, reason}); }

  EngineStats stats() const override {
    const std::scoped_lock lock(stats_mutex_);
    return published_;
  }
  const Model& model() const override { return *model_; }
  const MemoryPlan& memory_plan() const override { return plan_.memory; }
  double seconds_since_progress() const override {
    if (sleeping_ && alive_) return 0.0;
    return seconds(Time(Clock::duration(progress_.load())), Clock::now());
  }
  bool alive() const override { return alive_; }
  bool idle() const override { return open_ == 0; }

 private:
  SchedulerLimits scheduler_limits() const {
    return {.max_model_len = plan_.sizes.max_model_len,
            .max_num_seqs = plan_.sizes.max_num_seqs,
            .max_num_batched_tokens = plan_.sizes.max_tokens,
            .max_prompt_logprob_rows = kPromptLogprobRows,
            .max_draft_rows = plan_.sizes.max_draft_rows,
            .max_drafts = plan_.sizes.max_drafts,
            .enable_prefix_caching = options_.enable_prefix_caching,
            .eos_token_ids = model_->config().eos_token_ids};
  }

  // The thread.
  void run();
  void loop();
  void handle(EngineMessage&& message);
  void accept(NewRequest&& message);
  void cancel_now(const Cancel& message);
  Status step();
  void propose_drafts();
  void note_scheduled(const StepPlan& plan);
  void note_wanted_rows(const StepPlan& plan);
  void take_samples(StepPlan& plan, const ModelRunner::Output& output);
  void sample_rows(const ModelRunner::Output& output);
  bool take_sample(StepPlan::Item& item, Result<OutputToken>&& token);
  void note_output(Client& owner, OutputToken&& token);
  void take_prompt_logprobs(const StepPlan::Item& item, std::span<const float> logits);
  void publish(const StepPlan& plan, std::vector<Finished> finished);
  void finish(Client& client, const Sequence& sequence, Finish&& finish);
  void fail_all(const Error& error);
  void end_all(FinishReason reason, const std::optional<Error>& error);
  void leave_queue(const Sequence& sequence);
  void became_idle();
  void snapshot();
  void note_progress() { progress_ = Clock::now().time_since_epoch().count(); }

  Client& client(const Sequence& sequence) { return clients_.at(sequence.request.id); }
  const Client& client(const Sequence& sequence) const { return clients_.at(sequence.request.id); }

  const EngineOptions options_;
  const EnginePlan plan_;

  // Engine thread only, destroyed in reverse: the device outlives all that came from it.
  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<ModelRunner> runner_;
  BlockPool pool_;
  PrefixIndex index_;
  Scheduler scheduler_;
  std::unordered_map<RequestId, Client> clients_;
  // Of the step in work.
  struct OpenRow {
    StepPlan::Item* item = nullptr;
    size_t row = 0;        // of logits: the one to sample from
    bool on_host = false;  // by the sampler; else it is the device's argmax
  };
  std::vector<bool> wanted_rows_;
  std::vector<OpenRow> open_rows_;
  std::vector<SampleJob> jobs_;
  EngineStats counters_;
  Time last_check_{};
  bool stopping_ = false;

  // Shared with callers.
  Inbox<EngineMessage> inbox_;
  std::atomic<bool> alive_{true};
  std::atomic<bool> sleeping_{false};
  std::atomic<Clock::rep> progress_{0};
  std::atomic<int64_t> open_{0};           // submitted and not finished
  std::atomic<int64_t> queued_{0};         // submitted and not yet scheduled
  std::atomic<int64_t> queued_tokens_{0};  // of these
  mutable std::mutex stats_mutex_;
  EngineStats published_;

  std::thread thread_;  // last: it uses all of the above
};

// --- called from any thread ------------------------------------------------------------------

Status EngineThread::submit(Request request) {
  const AdmissionLimits limits{.max_model_len = plan_.sizes.max_model_len,
                               .vocab_size = model_->config().vocab_size};
  if (Status status = check_request(request, limits); !status) return status;
  if (!alive_) return Error{ErrorCode::kUnavailable, "the engine has stopped"};
  const auto tokens = static_cast<int64_t>(request.prompt.size());
  const auto refuse = [&](std::string message) -> Status {
    --queued_;
    queued_tokens_ -= tokens;
    return resource_exhausted(std::move(message));
  };
  // Counted first, so that callers at the same time cannot both take the last place.
  const int64_t queued = ++queued_;
  const int64_t queued_tokens = queued_tokens_ += tokens;
  if (queued > options_.max_queued_requests) {
    return refuse("the queue is full: " + std::to_string(options_.max_queued_requests) +
                  " requests wait (max_queued_requests)");
  }
  if (options_.max_queued_tokens > 0 && queued > 1 && queued_tokens > options_.max_queued_tokens) {
    return refuse("the queue is full: " + std::to_string(options_.max_queued_tokens) +
                  " prompt tokens wait (max_queued_tokens)");
  }
  ++open_;
  if (inbox_.put(NewRequest{std::move(request), Clock::now()})) return {};
  --open_;
  if (alive_) return refuse("the queue is full");
  (void)refuse("");
  return Error{ErrorCode::kUnavailable, "the engine has stopped"};
}

// --- the engine thread -----------------------------------------------------------------------

void EngineThread::run() {
  try {
    loop();
  } catch (const std::exception& error) {  // out of host memory, from a library
    log_error(std::string("the engine thread ended: ") + error.what());
    fail_all(internal_error(std::string("the engine ended: ") + error.what()));
  }
  alive_ = false;
  inbox_.close();
  for (EngineMessage& message : inbox_.take(/*wait=*/false)) {
    if (auto* request = std::get_if<NewRequest>(&message)) accept(std::move(*request));
  }
  end_all(FinishReason::kAbort, std::nullopt);
  snapshot();
}

void EngineThread::loop() {
  while (true) {
    const bool wait = scheduler_.idle();
    if (wait) became_idle();
    std::vector<EngineMessage> messages = inbox_.take(wait);
    note_progress();
    sleeping_ = false;
    for (EngineMessage& message : messages) handle(std::move(message));
    if (stopping_) return;
    if (scheduler_.idle()) continue;
    if (Status status = step(); !status) {
      log_error("the device failed, the engine ends: " + status.error().message);
      return fail_all(status.error());
    }
    note_progress();
  }
}

void EngineThread::handle(EngineMessage&& message) {
  if (auto* request = std::get_if<NewRequest>(&message)) {
    accept(std::move(*request));
  } else if (const auto* cancelled = std::get_if<Cancel>(&message)) {
    cancel_now(*cancelled);
  } else {
    stopping_ = true;
  }
}

void EngineThread::accept(NewRequest&& message) {
  Request& request = message.request;
  const RequestId id = request.id;
  Client added{.stream = TokenStream(std::move(request.deliver), options_.stream_interval),
               .sampler = {},
               .drafting = {},
               .prompt_logprobs = {},
               .submitted = message.submitted,
               .scheduled = {},
               .first_token = {},
               .last_token = {},
               .error = {}};
  added.sampler.seed = request.sampling.seed.value_or(hash_mix(options_.seed, id));
  if (clients_.contains(id)) {
    queued_tokens_ -= static_cast<int64_t>(request.prompt.size());
    --queued_;
    ++counters_.finished_error;
    added.stream.finish(
        {.reason = FinishReason::kError,
         .stop_token = {},
         .error = internal_error("request id " + std::to_string(id) + " is already in use"),
         .usage = {}});
    --open_;
    return;
  }
  clients_.emplace(id, std::move(added));
  scheduler_.add(std::move(request));
}

void EngineThread::cancel_now(const Cancel& message) {
  const auto sequence = scheduler_.remove(message.id);
  if (sequence == nullptr) return;
  finish(client(*sequence),
         *sequence,
         {.reason = message.reason, .stop_token = {}, .error = {}, .usage = {}});
}

Status EngineThread::step() {
  propose_drafts();
  StepPlan& plan = scheduler_.plan();
  if (plan.items.empty()) return {};
  note_scheduled(plan);
  note_wanted_rows(plan);
  auto output = runner_->run(plan, wanted_rows_);
  if (!output) return output.error();
  take_samples(plan, *output);
  ++counters_.steps;
  publish(plan, scheduler_.commit(plan));
  snapshot();
  return {};
}

void EngineThread::propose_drafts() {
  if (plan_.sizes.max_drafts == 0) return;
  for (const auto& sequence : scheduler_.running_sequences()) {
    propose(options_.speculation, *model_, client(*sequence).drafting, *sequence);
  }
}

void EngineThread::note_scheduled(const StepPlan& plan) {
  for (const StepPlan::Item& item : plan.items) {
    Client& owner = client(*item.sequence);
    if (owner.scheduled) continue;
    owner.scheduled = Clock::now();
    leave_queue(*item.sequence);
    counters_.prompt_tokens += item.sequence->prompt_tokens;
  }
}

void EngineThread::leave_queue(const Sequence& sequence) {
  --queued_;
  queued_tokens_ -= sequence.prompt_tokens;
}

// All rows of an item, if its first is: what a request needs only stops with min_tokens.
void EngineThread::note_wanted_rows(const StepPlan& plan) {
  wanted_rows_.clear();
  for (const StepPlan::Item& item : plan.items) {
    const bool wanted = item.prompt_logprobs || needs_logits(*item.sequence);
    wanted_rows_.insert(wanted_rows_.end(), static_cast<size_t>(item.logit_rows()), wanted);
  }
}

void EngineThread::take_samples(StepPlan& plan, const ModelRunner::Output& output) {
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  size_t row = 0;  // of logits
  for (StepPlan::Item& item : plan.items) {
    const auto rows = static_cast<size_t>(item.logit_rows());
    if (item.prompt_logprobs) {
      take_prompt_logprobs(item, output.logits.subspan(row * vocab, rows * vocab));
    }
    if (item.samples) {
      item.error = client(*item.sequence).error;
      if (!item.error) {
        open_rows_.push_back({&item, row + static_cast<size_t>(item.first_sampled_row())});
      }
    }
    row += rows;
  }
  while (!open_rows_.empty()) sample_rows(output);
}

// One row of each item that is open; those whose draft was right stay open for their next row.
// Each row is as if it were a step of its own, and threads may share the rows of a round.
void EngineThread::sample_rows(const ModelRunner::Output& output) {
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  jobs_.clear();
  for (OpenRow& open : open_rows_) {
    const Sequence& sequence = *open.item->sequence;
    open.on_host = needs_logits(sequence);
    if (!open.on_host) continue;
    jobs_.push_back({.logits = output.logits.subspan(open.row * vocab, vocab),
                     .sequence = &sequence,
                     .state = &client(sequence).sampler});
  }
  sample_all(jobs_, model_->config().eos_token_ids, queue_->host_pool());
  size_t job = 0, still_open = 0;
  for (const OpenRow& open : open_rows_) {
    Result<OutputToken> token = OutputToken{.token = output.tokens[open.row]};
    if (open.on_host) {
      token = std::move(jobs_[job++].token);
    } else if (token->token < 0) {
      token = bad_logits(open.item->sequence->output_count());
    }
    const bool goes_on = take_sample(*open.item, std::move(token));
    if (goes_on) open_rows_[still_open++] = {open.item, open.row + 1};
  }
  open_rows_.resize(still_open);
}

// True: the draft behind it was right.
bool EngineThread::take_sample(StepPlan::Item& item, Result<OutputToken>&& token) {
  if (!token) {
    item.error = token.error();
    return false;
  }
  const Scheduler::Accepted accepted = scheduler_.accept(item, token->token);
  if (accepted.is_output) note_output(client(*item.sequence), *std::move(token));
  return accepted.goes_on;
}

void EngineThread::note_output(Client& owner, OutputToken&& token) {
  owner.stream.add(std::move(token));
  ++counters_.generation_tokens;
  owner.last_token = Clock::now();
  if (!owner.first_token) owner.first_token = owner.last_token;
}

// Row i is of position first + i and tells about the prompt token after it.
void EngineThread::take_prompt_logprobs(const StepPlan::Item& item, std::span<const float> logits) {
  const Sequence& sequence = *item.sequence;
  Client& owner = client(sequence);
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  owner.prompt_logprobs.resize(static_cast<size_t>(sequence.prompt_tokens) - 1);
  for (int32_t i = 0; i < item.count; ++i) {
    const auto next = static_cast<size_t>(item.first + i) + 1;
    if (next >= static_cast<size_t>(sequence.prompt_tokens)) break;
    auto logprob = logprob_of(logits.subspan(static_cast<size_t>(i) * vocab, vocab),
                              sequence.tokens[next],
                              sequence.request.sampling.prompt_logprobs);
    if (!logprob) {
      owner.error = internal_error("the model's logits for prompt token " + std::to_string(next) +
                                   " are not finite numbers");
      return;
    }
    owner.prompt_logprobs[next - 1] = *std::move(logprob);
  }
  if (item.samples) owner.stream.add_prompt_logprobs(std::move(owner.prompt_logprobs));
}

void EngineThread::publish(const StepPlan& plan, std::vector<Finished> finished) {
  for (Finished& ended : finished) {
    finish(client(*ended.sequence),
           *ended.sequence,
           {.reason = ended.reason,
            .stop_token = ended.stop_token,
            .error = std::move(ended.error),
            .usage = {}});
  }
  std::vector<Cancel> leaving;
  for (const StepPlan::Item& item : plan.items) {
    if (!item.samples) continue;
    // Sequences that finished live on in `finished`; their clients do not.
    const auto found = clients_.find(item.sequence->request.id);
    if (found == clients_.end() || found->second.stream.flush()) continue;
    leaving.push_back({item.sequence->request.id, FinishReason::kAbort});
  }
  for (const Cancel& cancelled : leaving) cancel_now(cancelled);
}

void EngineThread::finish(Client& owner, const Sequence& sequence, Finish&& end) {
  const Time now = Clock::now();
  if (!owner.scheduled) leave_queue(sequence);
  end.usage = {.prompt_tokens = sequence.prompt_tokens,
               .cached_tokens = std::max(0, sequence.cached_tokens),
               .output_tokens = sequence.output_count() + (end.stop_token ? 1 : 0)};
  const Time scheduled = owner.scheduled.value_or(now);
  const Time first = owner.first_token.value_or(now);
  end.usage.queue_seconds = seconds(owner.submitted, scheduled);
  end.usage.prefill_seconds = seconds(scheduled, first);
  end.usage.decode_seconds = seconds(first, owner.last_token.value_or(first));
  switch (end.reason) {
    case FinishReason::kStop:
      ++counters_.finished_stop;
      break;
    case FinishReason::kLength:
      ++counters_.finished_length;
      break;
    case FinishReason::kAbort:
      ++counters_.finished_abort;
      break;
    case FinishReason::kError:
      ++counters_.finished_error;
      break;
  }
  // Out of every count before the client hears of it: it may look at once.
  TokenStream stream = std::move(owner.stream);
  clients_.erase(sequence.request.id);
  snapshot();
  --open_;
  stream.finish(std::move(end));
}

void EngineThread::end_all(FinishReason reason, const std::optional<Error>& error) {
  for (const auto& sequence : scheduler_.remove_all()) {
    finish(client(*sequence),
           *sequence,
           {.reason = reason, .stop_token = {}, .error = error, .usage = {}});
  }
}

void EngineThread::fail_all(const Error& error) {
  alive_ = false;
  inbox_.close();
  for (EngineMessage& message : inbox_.take(/*wait=*/false)) {
    if (auto* request = std::get_if<NewRequest>(&message)) accept(std::move(*request));
  }
  end_all(FinishReason::kError, error);
}

void EngineThread::became_idle() {
  const Time now = Clock::now();
  if (seconds(last_check_, now) >= kSecondsBetweenChecks) {
    last_check_ = now;
    if (Status status = scheduler_.check(); !status) {
      log_error("integrity check: " + status.error().message);
    }
  }
  snapshot();
  note_progress();
  sleeping_ = true;
}

void EngineThread::snapshot() {
  counters_.running = static_cast<int64_t>(scheduler_.running());
  counters_.waiting = static_cast<int64_t>(scheduler_.waiting());
  counters_.blocks_total = pool_.total();
  counters_.blocks_referenced = pool_.referenced();
  counters_.blocks_cached = pool_.cached();
  const SchedulerCounters& scheduled = scheduler_.counters();
  counters_.preemptions = scheduled.preemptions;
  counters_.prefix_cache_queries = scheduled.prefix_cache_queries;
  counters_.prefix_cache_hits = scheduled.prefix_cache_hits;
  counters_.drafts = scheduled.drafts;
  counters_.draft_tokens = scheduled.draft_tokens;
  counters_.accepted_drafts = scheduled.accepted_drafts;
  counters_.accepted_at = scheduled.accepted_at;
  counters_.graph_replays = runner_->graph_replays();
  const std::scoped_lock lock(stats_mutex_);
  published_ = counters_;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(std::unique_ptr<Model> model,
                                               std::unique_ptr<Device> device,
                                               const KernelTable& kernels,
                                               const EngineOptions& options) {
  auto queue = device->create_queue();
  if (!queue) return queue.error();
  auto plan = plan_memory(*model, *device, **queue, options);
  if (!plan) return plan.error();
  const int64_t asked =
      options.max_model_len > 0 ? options.max_model_len : model->config().max_position_embeddings;
  if (plan->memory.max_model_len < asked) {
    log_info("max_model_len is " + std::to_string(plan->memory.max_model_len) +
             ", the largest that fits; the model allows " + std::to_string(asked));
  }
  log_info(plan->memory.describe());
  auto runner =
      ModelRunner::create(*model, *device, **queue, kernels, *plan, options.enable_graphs);
  if (!runner) {
    return resource_exhausted(runner.error().message +
                              "; lower --max-model-len, --max-num-seqs or --kv-cache-memory-bytes");
  }
  return std::unique_ptr<Engine>(std::make_unique<EngineThread>(
      std::move(model), std::move(device), *std::move(queue), *std::move(runner), *plan, options));
}

}  // namespace baton
