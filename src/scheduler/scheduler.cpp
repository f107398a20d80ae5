#include "scheduler/scheduler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace baton {
namespace {

// A waiting sequence that did not fit is looked at again when the number of available blocks
// has changed, and every so many steps because new prefixes may have been registered.
constexpr uint64_t kRecheckSteps = 16;

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, BlockPool& pool, PrefixIndex& index)
    : limits_(limits), pool_(pool), index_(index) {
  BATON_CHECK(limits_.max_num_batched_tokens >= limits_.max_num_seqs,
              "a step must hold one token of every sequence");
  BATON_CHECK(limits_.max_logit_rows >= limits_.max_num_seqs, limits_.max_logit_rows);
  BATON_CHECK(blocks_for_tokens(limits_.max_model_len) <= pool_.total(),
              "the pool must hold one sequence of max_model_len");
}

Sequence& Scheduler::add(Request request) {
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = std::move(request.prompt);
  sequence->prompt_tokens = sequence->known();
  sequence->scope.salt = request.cache_salt;
  const int64_t wanted =
      static_cast<int64_t>(sequence->prompt_tokens) + request.sampling.max_tokens;
  sequence->max_tokens = static_cast<int32_t>(std::min<int64_t>(wanted, limits_.max_model_len));
  sequence->arrival = next_arrival_++;
  sequence->request = std::move(request);
  Sequence& added = *sequence;
  insert_sorted(waiting_, std::move(sequence));
  return added;
}

StepPlan Scheduler::plan() {
  ++step_;
  StepPlan plan;
  make_room_by_priority();
  if (continue_decoding(plan)) admit_waiting(plan);
  share_budget(plan);
  return plan;
}

// Returns false if it had to preempt: then nobody new enters in this step.
bool Scheduler::continue_decoding(StepPlan& plan) {
  bool preempted = false;
  // Victims come from the back, at or behind i: what is before i stays.
  for (size_t i = 0; i < running_.size();) {
    Sequence& sequence = *running_[i];
    if (!sequence.decoding()) {
      ++i;
      continue;
    }
    bool here = true;
    while (here && !grow(sequence)) {
      Sequence& loser = victim();
      here = &loser != &sequence;
      preempt(loser);
      preempted = true;
    }
    if (!here) continue;
    plan_chunk(plan, sequence, 1);
    ++i;
  }
  return !preempted;
}

// Running, and not among those that continue_decoding() has planned.
std::vector<Sequence*> Scheduler::prefilling() const {
  std::vector<Sequence*> found;
  for (const auto& sequence : running_) {
    if (sequence->planned_step != step_) found.push_back(sequence.get());
  }
  return found;
}

// What the first prompt in order gets of `room` before the others.
int32_t Scheduler::guaranteed(const Sequence& first, int32_t room) {
  return first.uncomputed() <= room ? first.uncomputed() : (room + 1) / 2;
}

void Scheduler::share_budget(StepPlan& plan) {
  std::vector<Sequence*> prompts = prefilling();
  if (prompts.empty()) return;
  const int32_t room = limits_.max_num_batched_tokens - plan.tokens;
  Sequence& first = *prompts.front();
  prompts.erase(prompts.begin());
  std::ranges::sort(prompts, {}, [](const Sequence* s) {
    return std::tuple(s->request.priority, s->uncomputed(), s->arrival);
  });
  int32_t left = room - guaranteed(first, room);
  for (Sequence* sequence : prompts) left -= plan_chunk(plan, *sequence, left);
  plan_chunk(plan, first, limits_.max_num_batched_tokens - plan.tokens);
}

// Whether share_budget() would give it something in this step.
bool Scheduler::would_compute_now(const Sequence& candidate, int32_t room) const {
  const std::vector<Sequence*> prompts = prefilling();
  if (prompts.empty() || candidate.before(*prompts.front())) return room > 0;
  int64_t ahead = guaranteed(*prompts.front(), room);
  for (size_t i = 1; i < prompts.size(); ++i) {
    if (prompts[i]->uncomputed() <= candidate.uncomputed()) ahead += prompts[i]->uncomputed();
  }
  return ahead < room;
}

void Scheduler::admit_waiting(const StepPlan& plan) {
  const int32_t room = limits_.max_num_batched_tokens - plan.tokens;
  std::vector<Sequence*> passed;
  for (size_t i = 0; i < waiting_.size();) {
    if (running_.size() >= static_cast<size_t>(limits_.max_num_seqs)) return;
    Sequence& sequence = *waiting_[i];
    if (!would_compute_now(sequence, room)) {
      ++i;
      continue;
    }
    if (!reserve_blocks(sequence)) {
      if (sequence.passed_over >= kMaxPassedOver) return;
      passed.push_back(&sequence);
      ++i;
      continue;
    }
    for (Sequence* older : passed) ++older->passed_over;
    auto taken = take(waiting_, sequence);
    taken->state = SequenceState::kRunning;
    insert_sorted(running_, std::move(taken));
  }
}

int64_t Scheduler::reusable_tokens(const Sequence& sequence) const {
  if (!limits_.enable_prefix_caching || sequence.wants_prompt_logprobs()) return 0;
  return sequence.known() - 1;  // the last one is always computed: its logits are needed
}

bool Scheduler::reserve_blocks(Sequence& sequence) {
  if (sequence.blocked_at == pool_.available() && !running_.empty() && step_ % kRecheckSteps != 0) {
    return false;
  }
  sequence.blocks.adopt(index_.find(sequence.scope, sequence.tokens, reusable_tokens(sequence)));
  const auto reused = static_cast<int32_t>(sequence.blocks.capacity_tokens());
  // Each running sequence may soon need a block more; without them nothing is kept back.
  const auto kept_back = static_cast<int64_t>(running_.size());
  const int64_t missing = blocks_for_tokens(sequence.known()) - sequence.blocks.size();
  if (missing + kept_back > pool_.available()) {
    sequence.blocks.clear();
    sequence.blocked_at = pool_.available();
    return false;
  }
  BATON_CHECK(sequence.blocks.reserve(pool_, sequence.known()), "blocks counted but not there");
  sequence.computed = reused;
  sequence.blocked_at = -1;
  if (sequence.cached_tokens < 0) {
    sequence.cached_tokens = reused;
    if (limits_.enable_prefix_caching) counters_.prefix_cache_queries += sequence.prompt_tokens;
    counters_.prefix_cache_hits += reused;
  }
  return true;
}

// The first in the queue takes the place of running sequences of strictly lower priority, if
// that is enough for it.
void Scheduler::make_room_by_priority() {
  if (waiting_.empty()) return;
  const Sequence& head = *waiting_.front();
  const auto is_lower = [&](const Sequence& other) {
    return other.request.priority > head.request.priority;
  };
  if (running_.empty() || !is_lower(*running_.back())) return;
  const int64_t needed =
      blocks_for_tokens(head.known()) -
      index_.count_matching_tokens(head.scope, head.tokens, reusable_tokens(head)) / kBlockTokens;
  const auto lacks_room = [&] {
    return running_.size() >= static_cast<size_t>(limits_.max_num_seqs) ||
           needed + static_cast<int64_t>(running_.size()) > pool_.available();
  };
  int64_t possible = pool_.available();
  for (const auto& sequence : running_) {
    if (is_lower(*sequence)) possible += sequence->blocks.size();
  }
  if (possible < needed) return;
  while (lacks_room() && !running_.empty() && is_lower(*running_.back())) {
    preempt(*running_.back());
  }
}

bool Scheduler::grow(Sequence& sequence) {
  return sequence.blocks.reserve(pool_, sequence.known());
}

// The last in order that this step does not compute for. There is one: the caller's.
Sequence& Scheduler::victim() {
  size_t i = running_.size();
  while (i > 0 && running_[i - 1]->planned_step == step_) --i;
  BATON_CHECK(i > 0, "no sequence to preempt in step", step_);
  return *running_[i - 1];
}

void Scheduler::preempt(Sequence& sequence) {
  BATON_CHECK(sequence.planned_step != step_, "preempting what this step computes");
  auto taken = take(running_, sequence);
  taken->blocks.clear();
  taken->computed = 0;  // recomputed later; what the prefix index still has is found again
  taken->state = SequenceState::kWaiting;
  ++taken->preemptions;
  ++counters_.preemptions;
  insert_sorted(waiting_, std::move(taken));
}

// Plans as much of the sequence as budget and logit rows allow; returns how many tokens.
int32_t Scheduler::plan_chunk(StepPlan& plan, Sequence& sequence, int32_t budget) {
  int32_t count = std::min(sequence.uncomputed(), budget);
  const bool all_rows = sequence.wants_prompt_logprobs();
  if (all_rows) {
    // One row stays for every sequence that may sample in this step.
    int32_t rows = limits_.max_logit_rows - limits_.max_num_seqs;
    for (const StepPlan::Item& item : plan.items) rows -= item.prompt_logprobs ? item.count : 0;
    // The very last row is a sampling row as well.
    count = std::min(count, std::max(rows, 0));
  }
  if (count <= 0) return 0;
  const bool samples = count == sequence.uncomputed();
  plan.items.push_back({&sequence, sequence.computed, count, samples, all_rows});
  plan.tokens += count;
  plan.logit_rows += all_rows ? count : (samples ? 1 : 0);
  sequence.planned_step = step_;
  return count;
}

std::vector<Finished> Scheduler::commit(const StepPlan& plan, std::vector<Sampled> sampled) {
  std::vector<Finished> finished;
  size_t next = 0;
  for (const StepPlan::Item& item : plan.items) {
    Sampled* result = nullptr;
    if (item.samples) {
      BATON_CHECK(next < sampled.size(), "fewer samples than the plan has");
      result = &sampled[next++];
    }
    if (auto ended = commit_item(item, result)) finished.push_back(*std::move(ended));
  }
  BATON_CHECK(next == sampled.size(), next, "of", sampled.size(), "samples used");
  return finished;
}

std::optional<Finished> Scheduler::commit_item(const StepPlan::Item& item, Sampled* sampled) {
  Sequence& sequence = *item.sequence;
  sequence.computed += item.count;
  Finished end;
  if (sampled != nullptr && sampled->error) {
    // What led to bad logits is not offered to others: any of its rows may hold a NaN.
    sequence.blocks.forget(index_);
    end.reason = FinishReason::kError;
    end.error = std::move(sampled->error);
  } else {
    if (limits_.enable_prefix_caching) {
      sequence.blocks.publish(index_, sequence.scope, sequence.tokens, sequence.computed);
    }
    if (sampled == nullptr) return std::nullopt;
    const Verdict verdict = judge(sequence, sampled->token, limits_.eos_token_ids);
    if (verdict.append) sequence.tokens.push_back(sampled->token);
    if (!verdict.finish) return std::nullopt;
    end.reason = *verdict.finish;
    end.stop_token = verdict.stop_token;
  }
  end.sequence = take(running_, sequence);
  end.sequence->blocks.clear();
  return end;
}

std::unique_ptr<Sequence> Scheduler::remove(RequestId id) {
  for (Sequences* sequences : {&waiting_, &running_}) {
    for (const auto& sequence : *sequences) {
      if (sequence->request.id != id) continue;
      auto taken = take(*sequences, *sequence);
      taken->blocks.clear();
      return taken;
    }
  }
  return nullptr;
}

std::vector<std::unique_ptr<Sequence>> Scheduler::remove_all() {
  Sequences all = std::exchange(running_, {});
  for (auto& sequence : waiting_) all.push_back(std::move(sequence));
  waiting_.clear();
  for (auto& sequence : all) sequence->blocks.clear();
  return all;
}

std::unique_ptr<Sequence> Scheduler::take(Sequences& from, const Sequence& sequence) {
  // Sorted, but few: a search by address is as fast as one by order.
  const auto found =
      std::ranges::find_if(from, [&](const auto& s) { return s.get() == &sequence; });
  BATON_CHECK(found != from.end(), "sequence", sequence.request.id, "is not here");
  auto taken = std::move(*found);
  from.erase(found);
  return taken;
}

void Scheduler::insert_sorted(Sequences& into, std::unique_ptr<Sequence> sequence) {
  const auto at = std::ranges::upper_bound(
      into, sequence, [](const auto& a, const auto& b) { return a->before(*b); });
  into.insert(at, std::move(sequence));
}

Status Scheduler::check() const {
  if (Status status = pool_.check(); !status) return status;
  if (Status status = index_.check(); !status) return status;
  if (idle() && pool_.referenced() != 0) {
    return internal_error("block pool: " + std::to_string(pool_.referenced()) +
                          " blocks are referenced although nothing runs");
  }
  for (const auto& sequence : waiting_) {
    if (sequence->blocks.size() != 0) return internal_error("a waiting sequence holds blocks");
  }
  return {};
}

}  // namespace baton
