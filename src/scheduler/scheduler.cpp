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
  BATON_CHECK(limits_.max_prompt_logprob_rows > 0, limits_.max_prompt_logprob_rows);
  BATON_CHECK(blocks_for_tokens(limits_.max_model_len) <= pool_.total(),
              "the pool must hold one sequence of max_model_len");
  counters_.accepted_at.resize(static_cast<size_t>(limits_.max_drafts));
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

StepPlan& Scheduler::plan() {
  ++step_;
  plan_.items.clear();
  plan_.tokens = plan_.logit_rows = 0;
  make_room_by_priority();
  const bool has_room = continue_decoding();
  add_drafts();
  if (has_room) admit_waiting();
  share_budget();
  return plan_;
}

// Returns false if it had to preempt: then nobody new enters in this step.
bool Scheduler::continue_decoding() {
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
    plan_chunk(sequence, 1);
    ++i;
  }
  return !preempted;
}

// The plan holds the decoding sequences only, each with its one token.
void Scheduler::add_drafts() {
  int32_t left =
      std::min((limits_.max_num_batched_tokens - plan_.tokens) / 2, limits_.max_draft_rows);
  for (StepPlan::Item& item : plan_.items) {
    item.drafts = draft_count(*item.sequence, left);
    item.count += item.drafts;
    plan_.tokens += item.drafts;
    plan_.logit_rows += item.drafts;
    left -= item.drafts;
    counters_.drafts += item.drafts > 0 ? 1 : 0;
    counters_.draft_tokens += item.drafts;
  }
}

// How many of its drafts have a use and a place.
int32_t Scheduler::draft_count(Sequence& sequence, int32_t most) {
  // A step gives one token more than it has drafts.
  const int32_t wanted = sequence.max_tokens - sequence.known() - 1;
  const int32_t count =
      std::min({static_cast<int32_t>(sequence.drafts.size()), limits_.max_drafts, wanted, most});
  if (count <= 0) return 0;
  if (sequence.blocks.reserve(pool_, sequence.known() + count)) return count;
  const auto fits = sequence.blocks.capacity_tokens() - sequence.known();
  return std::min(count, static_cast<int32_t>(fits));
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

void Scheduler::share_budget() {
  std::vector<Sequence*> prompts = prefilling();
  if (prompts.empty()) return;
  const int32_t room = limits_.max_num_batched_tokens - plan_.tokens;
  Sequence& first = *prompts.front();
  prompts.erase(prompts.begin());
  std::ranges::sort(prompts, {}, [](const Sequence* s) {
    return std::tuple(s->request.priority, s->uncomputed(), s->arrival);
  });
  int32_t left = room - guaranteed(first, room);
  for (Sequence* sequence : prompts) left -= plan_chunk(*sequence, left);
  plan_chunk(first, limits_.max_num_batched_tokens - plan_.tokens);
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

void Scheduler::admit_waiting() {
  const int32_t room = limits_.max_num_batched_tokens - plan_.tokens;
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
  taken->drafts.clear();
  taken->state = SequenceState::kWaiting;
  ++taken->preemptions;
  ++counters_.preemptions;
  insert_sorted(waiting_, std::move(taken));
}

// Plans as much of the sequence as budget and logit rows allow; returns how many tokens.
int32_t Scheduler::plan_chunk(Sequence& sequence, int32_t budget) {
  int32_t count = std::min(sequence.uncomputed(), budget);
  const bool all_rows = sequence.wants_prompt_logprobs();
  if (all_rows) {
    int32_t rows = limits_.max_prompt_logprob_rows;
    for (const StepPlan::Item& item : plan_.items) rows -= item.prompt_logprobs ? item.count : 0;
    // The very last row is a sampling row as well.
    count = std::min(count, std::max(rows, 0));
  }
  if (count <= 0) return 0;
  plan_.items.push_back({.sequence = &sequence,
                         .first = sequence.computed,
                         .count = count,
                         .samples = count == sequence.uncomputed(),
                         .prompt_logprobs = all_rows});
  plan_.tokens += count;
  plan_.logit_rows += plan_.items.back().logit_rows();
  sequence.planned_step = step_;
  return count;
}

Scheduler::Accepted Scheduler::accept(StepPlan::Item& item, int32_t token) {
  Sequence& sequence = *item.sequence;
  const int32_t row = item.used_rows++;
  BATON_CHECK(item.samples && row <= item.drafts, row, "of", item.drafts, "drafts");
  item.verdict = judge(sequence, token, limits_.eos_token_ids);
  if (!item.verdict.append && !item.verdict.stop_token) return {};
  if (item.verdict.append) sequence.tokens.push_back(token);
  const bool was_drafted = row < item.drafts && sequence.drafts[static_cast<size_t>(row)] == token;
  if (was_drafted) {
    ++counters_.accepted_drafts;
    ++counters_.accepted_at[static_cast<size_t>(row)];
  }
  return {.is_output = true, .goes_on = was_drafted && !item.verdict.finish};
}

std::vector<Finished> Scheduler::commit(const StepPlan& plan) {
  std::vector<Finished> finished;
  for (const StepPlan::Item& item : plan.items) {
    BATON_CHECK(!item.samples || item.error || item.used_rows > 0, "an item was not sampled from");
    if (auto ended = commit_item(item)) finished.push_back(*std::move(ended));
  }
  return finished;
}

std::optional<Finished> Scheduler::commit_item(const StepPlan::Item& item) {
  Sequence& sequence = *item.sequence;
  // Of the drafts those count behind which a row was used: they are known tokens now.
  sequence.computed += item.count - item.drafts + std::max(0, item.used_rows - 1);
  sequence.drafts.clear();
  Finished end;
  if (item.error) {
    // What led to bad logits is not offered to others: any of its rows may hold a NaN.
    sequence.blocks.forget(index_);
    end.reason = FinishReason::kError;
    end.error = item.error;
  } else {
    if (limits_.enable_prefix_caching) {
      sequence.blocks.publish(index_, sequence.scope, sequence.tokens, sequence.computed);
    }
    if (!item.verdict.finish) {
      // Blocks for drafts are held for one step only.
      if (item.drafts > 0) sequence.blocks.shrink(sequence.known());
      return std::nullopt;
    }
    end.reason = *item.verdict.finish;
    end.stop_token = item.verdict.stop_token;
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
