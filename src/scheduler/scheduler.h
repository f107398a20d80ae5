// Decides what each engine step computes. Pure host logic: no tensors, no devices, no clocks,
// no sockets, no threads. plan(), then commit(), forever. Engine thread.
//
// Order. Sequences are served by (priority, arrival). Decoding ones come first in every step.
// What is left of the token budget goes to prompts (running and newly admitted). The first in
// order gets what it needs if that is no more than the budget, else half of it; the rest goes
// to the others, the shortest remainder first; what they leave goes back to the first. So a
// short prompt behind a very long one gets in at once, and the long one never gets less than
// half.
//
// Drafts. A decoding sequence may bring tokens that are likely to follow. The step computes them
// behind the last known one and gives logits at each: row 0 says what follows the known tokens,
// row i what follows if the first i drafts are right. accept() takes the sampled tokens row by
// row and says whether the next row still counts. So the tokens are those of steps without
// drafts. Drafts are extra: they get at most half of the tokens that decoding leaves, and no
// block by preemption. What the device wrote for a wrong draft lies behind `computed`: nothing
// reads or registers it before it is overwritten.
//
// Memory. A sequence is admitted when the pool holds blocks for all its known tokens, and takes
// them then; after that it grows one block at a time. When one cannot grow, the last in order
// that this step has not planned is preempted: its blocks go back (computed ones stay in the
// prefix index) and it waits again in its old place. A waiting sequence that does not fit lets
// others pass, at most kMaxPassedOver of them; then it keeps its place until it fits. A waiting
// sequence may preempt running ones of strictly lower priority.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kv_cache/block_pool.h"
#include "kv_cache/prefix_index.h"
#include "scheduler/request.h"
#include "scheduler/sequence.h"

namespace baton {

constexpr int32_t kMaxPassedOver = 64;

struct SchedulerLimits {
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 64;
  int32_t max_num_batched_tokens = 4096;
  // Rows of logits in one step, besides one per sequence.
  int32_t max_prompt_logprob_rows = 64;  // prompt tokens whose logprob is wanted
  int32_t max_draft_rows = 0;            // drafts of all sequences
  int32_t max_drafts = 0;                // of one sequence
  bool enable_prefix_caching = true;
  std::vector<int32_t> eos_token_ids;
};

struct StepPlan {
  // Compute tokens [first, first + count), the last `drafts` of which are drafts; if the others
  // reach the last known token, sample what follows it. Prompt chunks and decode steps are the
  // same thing.
  struct Item {
    Sequence* sequence;
    int32_t first;
    int32_t count;
    bool samples;
    bool prompt_logprobs;  // logits of every token of the chunk are wanted
    int32_t drafts = 0;    // only where it samples and wants no prompt logprobs

    // What sampling made of it.
    int32_t used_rows = 0;            // rows whose token was given to accept()
    Verdict verdict = {};             // of the last of them
    std::optional<Error> error = {};  // the next row has no token: the sequence ends with kError

    int32_t logit_rows() const { return prompt_logprobs ? count : (samples ? 1 + drafts : 0); }
    // The first of its rows that is sampled from, if it samples.
    int32_t first_sampled_row() const { return logit_rows() - 1 - drafts; }
  };
  std::vector<Item> items;
  int32_t tokens = 0;
  int32_t logit_rows = 0;
};

struct Finished {
  std::unique_ptr<Sequence> sequence;
  FinishReason reason = FinishReason::kStop;
  std::optional<int32_t> stop_token = std::nullopt;
  std::optional<Error> error = std::nullopt;
};

struct SchedulerCounters {
  int64_t preemptions = 0;
  int64_t prefix_cache_queries = 0;
  int64_t prefix_cache_hits = 0;
  int64_t drafts = 0;                // steps of a sequence that had drafts
  int64_t draft_tokens = 0;          // drafts computed
  int64_t accepted_drafts = 0;       // of these, in the output
  std::vector<int64_t> accepted_at;  // the same by place in the draft: [max_drafts]
};

class Scheduler {
 public:
  // The pool and index outlive the scheduler.
  Scheduler(const SchedulerLimits& limits, BlockPool& pool, PrefixIndex& index);

  // The request passed check_request(). Returns the sequence, which stays where it is until it
  // comes back in a Finished.
  Sequence& add(Request request);

  // Valid until the next plan().
  StepPlan& plan();

  // The token that was sampled from the item's next row of logits.
  struct Accepted {
    bool is_output = false;  // appended to the sequence's tokens, or the stop that ends it
    bool goes_on = false;    // the draft behind it was right: the next row is to be sampled from
  };
  Accepted accept(StepPlan::Item& item, int32_t token);
  // Every item that samples has had a token accepted, or has an error. Registers full blocks and
  // takes out what ended. The plan is used up.
  std::vector<Finished> commit(const StepPlan& plan);

  // Takes a request out in any state, between commit() and plan(). Null: not here.
  std::unique_ptr<Sequence> remove(RequestId id);
  // Takes all out.
  std::vector<std::unique_ptr<Sequence>> remove_all();

  bool idle() const { return waiting_.empty() && running_.empty(); }
  size_t running() const { return running_.size(); }
  std::span<const std::unique_ptr<Sequence>> running_sequences() const { return running_; }
  size_t waiting() const { return waiting_.size(); }
  const SchedulerCounters& counters() const { return counters_; }

  // The pool's and index's own checks; with `idle`, also that nothing is referenced.
  Status check() const;

 private:
  using Sequences = std::vector<std::unique_ptr<Sequence>>;  // sorted by Sequence::before

  bool continue_decoding();
  void add_drafts();
  int32_t draft_count(Sequence& sequence, int32_t most);
  std::vector<Sequence*> prefilling() const;
  static int32_t guaranteed(const Sequence& first, int32_t room);
  void share_budget();
  void admit_waiting();
  bool would_compute_now(const Sequence& candidate, int32_t room) const;
  void make_room_by_priority();
  bool reserve_blocks(Sequence& sequence);
  int64_t reusable_tokens(const Sequence& sequence) const;
  bool grow(Sequence& sequence);
  Sequence& victim();
  void preempt(Sequence& sequence);
  int32_t plan_chunk(Sequence& sequence, int32_t budget);
  std::optional<Finished> commit_item(const StepPlan::Item& item);
  std::unique_ptr<Sequence> take(Sequences& from, const Sequence& sequence);
  static void insert_sorted(Sequences& into, std::unique_ptr<Sequence> sequence);

  SchedulerLimits limits_;
  BlockPool& pool_;
  PrefixIndex& index_;
  Sequences waiting_;
  Sequences running_;
  StepPlan plan_;
  SchedulerCounters counters_;
  uint64_t next_arrival_ = 0;
  uint64_t step_ = 0;
};

}  // namespace baton
