// The scheduler with a simulated device: every slot of every block remembers the token that was
// written there, and a step may only run when all earlier positions hold what they should. So
// each test also proves that no plan reads another prompt's KV.
#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/hash.h"

namespace baton {
namespace {

constexpr int32_t kEos = 0;

// What the simulated model says after `tokens`.
int32_t next_token(const std::vector<int32_t>& tokens, uint64_t vocab) {
  return static_cast<int32_t>(hash_tokens(1, tokens) % vocab);
}

class Simulation {
 public:
  struct Setup {
    int32_t blocks = 20;  // without the scratch block
    int32_t max_model_len = 512;
    int32_t max_num_seqs = 8;
    int32_t max_num_batched_tokens = 128;
    bool caching = true;
    uint64_t vocab = 1000;
    int32_t max_drafts = 0;  // add_drafts() says which
  };
  explicit Simulation(const Setup& setup)
      : setup_(setup),
        pool_(setup.blocks + 1),
        index_(pool_),
        scheduler_({.max_model_len = setup.max_model_len,
                    .max_num_seqs = setup.max_num_seqs,
                    .max_num_batched_tokens = setup.max_num_batched_tokens,
                    .max_prompt_logprob_rows = 16,
                    .max_draft_rows = setup.max_drafts * setup.max_num_seqs,
                    .max_drafts = setup.max_drafts,
                    .enable_prefix_caching = setup.caching,
                    .eos_token_ids = {kEos}},
                   pool_,
                   index_),
        slots_(static_cast<size_t>((setup.blocks + 1) * kBlockTokens), -1) {}

  RequestId add(std::vector<int32_t> prompt,
                SamplingParams sampling = {},
                int32_t priority = 0,
                std::string salt = "") {
    Request request;
    request.id = next_id_++;
    request.prompt = std::move(prompt);
    request.sampling = std::move(sampling);
    request.priority = priority;
    request.cache_salt = std::move(salt);
    prompts_[request.id] = request.prompt;
    params_[request.id] = request.sampling;
    const RequestId id = request.id;
    scheduler_.add(std::move(request));
    return id;
  }

  // What `draft(i)` says is right for the i-th draft is, the others are wrong. For every sequence
  // that decodes.
  template <typename Draft>
  void add_drafts(int32_t count, const Draft& is_right) {
    for (const auto& sequence : scheduler_.running_sequences()) {
      if (!sequence->decoding()) continue;
      std::vector<int32_t> tokens = sequence->tokens;
      for (int32_t i = 0; i < count; ++i) {
        tokens.push_back(next_token(tokens, setup_.vocab));
        const auto other = (tokens.back() + 1) % static_cast<int32_t>(setup_.vocab);
        sequence->drafts.push_back(is_right(i) ? tokens.back() : other);
      }
    }
  }

  // One step. Items of the plan are kept for the test to look at.
  const StepPlan& step() {
    plan_ = &scheduler_.plan();
    ran_.clear();
    int32_t tokens = 0, rows = 0, draft_rows = 0;
    std::set<const Sequence*> seen;
    for (StepPlan::Item& item : plan_->items) {
      EXPECT_TRUE(seen.insert(item.sequence).second) << "planned twice";
      EXPECT_GT(item.count, item.drafts);
      EXPECT_EQ(item.first, item.sequence->computed);
      EXPECT_EQ(item.samples, item.first + item.count - item.drafts == item.sequence->known());
      tokens += item.count;
      rows += item.logit_rows();
      draft_rows += item.drafts;
      ran_[item.sequence->request.id] = item.count;
      run(item);
      if (item.samples) sample(item);
    }
    EXPECT_EQ(tokens, plan_->tokens);
    EXPECT_EQ(rows, plan_->logit_rows);
    EXPECT_LE(tokens, setup_.max_num_batched_tokens);
    EXPECT_LE(rows - draft_rows, setup_.max_num_seqs + 16);
    EXPECT_LE(draft_rows, setup_.max_drafts * setup_.max_num_seqs);
    EXPECT_LE(scheduler_.running(), static_cast<size_t>(setup_.max_num_seqs));
    EXPECT_FALSE(plan_->items.empty() && !scheduler_.idle()) << "nothing to do, but not idle";
    for (Finished& finished : scheduler_.commit(*plan_)) {
      if (!finished.error) expect_right_output(*finished.sequence, finished.reason);
      finished_[finished.sequence->request.id] = std::move(finished);
    }
    for (const auto& sequence : scheduler_.running_sequences()) {
      EXPECT_TRUE(sequence->drafts.empty());
      EXPECT_LE(sequence->blocks.size(), blocks_for_tokens(sequence->known()));
    }
    return *plan_;
  }

  // The next decoding sequence gets bad logits.
  void fail_next() { fail_next_ = true; }

  void run_until_idle(int limit = 100000) {
    while (!scheduler_.idle() && limit-- > 0) step();
    ASSERT_TRUE(scheduler_.idle()) << "still busy";
    expect_sound();
  }

  void expect_sound() {
    const Status status = scheduler_.check();
    EXPECT_TRUE(status) << status.error().message;
  }

  int32_t ran(RequestId id) const { return ran_.contains(id) ? ran_.at(id) : 0; }
  const Finished* finished(RequestId id) const {
    return finished_.contains(id) ? &finished_.at(id) : nullptr;
  }
  std::vector<int32_t> prompt(RequestId id) const { return prompts_.at(id); }
  Scheduler& scheduler() { return scheduler_; }
  BlockPool& pool() { return pool_; }
  PrefixIndex& index() { return index_; }

 private:
  void sample(StepPlan::Item& item) {
    if (fail_next_ && item.sequence->output_count() > 0) {
      fail_next_ = false;
      item.error = internal_error("bad logits");
      return;
    }
    while (scheduler_.accept(item, next_token(item.sequence->tokens, setup_.vocab)).goes_on) {
    }
  }

  void run(const StepPlan::Item& item) {
    const Sequence& sequence = *item.sequence;
    ASSERT_GE(sequence.blocks.capacity_tokens(), item.first + item.count);
    const auto slot = [&](int32_t position) -> int32_t& {
      const BlockId block = sequence.blocks.ids()[static_cast<size_t>(position / kBlockTokens)];
      EXPECT_GT(block, kScratchBlock);
      return slots_[static_cast<size_t>(block * kBlockTokens + position % kBlockTokens)];
    };
    for (int32_t p = 0; p < item.first; ++p) {
      ASSERT_EQ(slot(p), sequence.tokens[static_cast<size_t>(p)]) << "position " << p;
    }
    for (int32_t p = item.first; p < item.first + item.count; ++p) {
      slot(p) = sequence.token(p);
    }
  }

  // Same tokens as alone, and the right end.
  void expect_right_output(const Sequence& sequence, FinishReason reason) {
    const RequestId id = sequence.request.id;
    std::vector<int32_t> expected = prompts_[id];
    const SamplingParams& params = params_[id];
    const size_t limit = std::min(static_cast<size_t>(setup_.max_model_len),
                                  expected.size() + static_cast<size_t>(params.max_tokens));
    FinishReason expected_reason = FinishReason::kLength;
    const size_t prompt_tokens = expected.size();
    while (expected.size() < limit) {
      const int32_t token = next_token(expected, setup_.vocab);
      const bool may_stop =
          expected.size() - prompt_tokens >= static_cast<size_t>(params.min_tokens);
      if (token == kEos && !params.ignore_eos && may_stop) {
        expected_reason = FinishReason::kStop;
        break;
      }
      expected.push_back(token);
    }
    EXPECT_EQ(sequence.tokens, expected) << "request " << id;
    EXPECT_EQ(reason, expected_reason) << "request " << id;
  }

  Setup setup_;
  BlockPool pool_;
  PrefixIndex index_;
  Scheduler scheduler_;
  std::vector<int32_t> slots_;  // token written per slot of the device buffer
  StepPlan* plan_ = nullptr;
  std::map<RequestId, int32_t> ran_;
  std::map<RequestId, std::vector<int32_t>> prompts_;
  std::map<RequestId, SamplingParams> params_;
  std::map<RequestId, Finished> finished_;
  RequestId next_id_ = 1;
  bool fail_next_ = false;
};

std::vector<int32_t> numbered(size_t count, int32_t first = 1) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<int32_t>(i % 900);
  return tokens;
}

SamplingParams generate(int32_t max_tokens) {
  SamplingParams sampling;
  sampling.max_tokens = max_tokens;
  sampling.ignore_eos = true;
  return sampling;
}

TEST(Scheduler, RunsOnePromptInChunksThenDecodes) {
  Simulation sim({.max_num_batched_tokens = 100});
  const RequestId id = sim.add(numbered(250), generate(3));
  for (const int32_t expected : {100, 100, 50, 1, 1}) {
    sim.step();
    EXPECT_EQ(sim.ran(id), expected);
  }
  ASSERT_NE(sim.finished(id), nullptr);
  EXPECT_TRUE(sim.scheduler().idle());
}

TEST(Scheduler, DecodesEveryRunningSequenceInEveryStep) {
  Simulation sim({});
  const RequestId a = sim.add(numbered(20), generate(40));
  const RequestId b = sim.add(numbered(30, 100), generate(40));
  sim.step();
  sim.add(numbered(500, 300), generate(2));
  for (int i = 0; i < 10; ++i) {
    sim.step();
    EXPECT_EQ(sim.ran(a), 1);
    EXPECT_EQ(sim.ran(b), 1);
  }
  sim.run_until_idle();
}

TEST(Scheduler, GivesAShortPromptItsTurnBehindVeryLongOnes) {
  Simulation sim({.blocks = 400, .max_model_len = 8000, .max_num_batched_tokens = 128});
  const RequestId first = sim.add(numbered(6000), generate(1));
  const RequestId second = sim.add(numbered(6000, 7), generate(1));
  const RequestId third = sim.add(numbered(6000, 9), generate(1));
  sim.step();
  for (int i = 0; i < 20; ++i) {
    const RequestId small = sim.add(numbered(50, 200 + i * 50), generate(1));
    sim.step();
    EXPECT_EQ(sim.ran(small), 50);  // its whole prompt in its first step
    EXPECT_GE(sim.ran(first), 64);  // and the first long one keeps half
  }
  sim.run_until_idle();
  EXPECT_NE(sim.finished(second), nullptr);
  EXPECT_NE(sim.finished(third), nullptr);
}

TEST(Scheduler, UsesTheWholeBudgetWhenOnlyLongPromptsWait) {
  Simulation sim({.blocks = 400, .max_model_len = 8000, .max_num_batched_tokens = 128});
  sim.add(numbered(6000), generate(1));
  sim.add(numbered(6000, 7), generate(1));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sim.step().tokens, 128);
  sim.run_until_idle();
}

TEST(Scheduler, LetsSmallOnesPassAHeadThatDoesNotFit) {
  Simulation sim({.blocks = 16, .max_model_len = 1000, .max_num_seqs = 4});
  const RequestId stream = sim.add(numbered(300), generate(600));
  for (int i = 0; i < 4; ++i) sim.step();
  const RequestId big = sim.add(numbered(900, 400), generate(2));
  std::vector<RequestId> small;
  for (int i = 0; i < 20; ++i) small.push_back(sim.add(numbered(50, 100 + i), generate(2)));
  for (int i = 0; i < 40; ++i) sim.step();
  for (const RequestId id : small) EXPECT_NE(sim.finished(id), nullptr);
  EXPECT_EQ(sim.finished(big), nullptr);
  sim.run_until_idle();
  EXPECT_NE(sim.finished(stream), nullptr);
  EXPECT_NE(sim.finished(big), nullptr);
}

TEST(Scheduler, StopsLettingOthersPassAfterTheDocumentedNumber) {
  Simulation sim({.blocks = 16, .max_model_len = 1000, .max_num_seqs = 4});
  sim.add(numbered(250), generate(2));
  sim.step();
  sim.step();
  const RequestId big = sim.add(numbered(900, 400), generate(2));
  int admitted = 0;
  // Enough small ones that there is always one that would fit.
  for (int i = 0; i < 300 && sim.finished(big) == nullptr; ++i) {
    while (sim.scheduler().waiting() < 4) {
      sim.add(numbered(100, i), generate(3));
      ++admitted;
    }
    sim.step();
  }
  EXPECT_NE(sim.finished(big), nullptr);
  EXPECT_LE(admitted, kMaxPassedOver + 20);
  sim.run_until_idle();
}

TEST(Scheduler, ReusesPrefixesButComputesTheLastPromptToken) {
  for (const size_t length : {63U, 64U, 65U, 127U, 128U, 129U, 487U}) {
    Simulation sim({});
    const RequestId miss = sim.add(numbered(length), generate(2));
    sim.run_until_idle();
    const RequestId hit = sim.add(numbered(length), generate(2));
    auto other = numbered(length);
    other.back() = 999;
    const RequestId branched = sim.add(other, generate(2));
    sim.run_until_idle();
    EXPECT_EQ(sim.finished(miss)->sequence->cached_tokens, 0);
    const auto expected = static_cast<int32_t>((length - 1) / 64 * 64);
    EXPECT_EQ(sim.finished(hit)->sequence->cached_tokens, expected);
    EXPECT_EQ(sim.finished(branched)->sequence->cached_tokens, expected);
  }
}

TEST(Scheduler, SharesPrefixesOnlyWithinOneSalt) {
  Simulation sim({.blocks = 40});
  sim.add(numbered(200), generate(1), 0, "A");
  sim.run_until_idle();
  const RequestId other = sim.add(numbered(200), generate(1), 0, "B");
  const RequestId none = sim.add(numbered(200), generate(1), 0, "");
  const RequestId same = sim.add(numbered(200), generate(1), 0, "A");
  sim.run_until_idle();
  EXPECT_EQ(sim.finished(other)->sequence->cached_tokens, 0);
  EXPECT_EQ(sim.finished(none)->sequence->cached_tokens, 0);
  EXPECT_EQ(sim.finished(same)->sequence->cached_tokens, 192);
}

TEST(Scheduler, KeepsWhatAnInterruptedRequestComputed) {
  Simulation sim({});
  const RequestId id = sim.add(numbered(400), generate(100));
  for (int i = 0; i < 24; ++i) sim.step();
  auto removed = sim.scheduler().remove(id);
  ASSERT_NE(removed, nullptr);
  EXPECT_EQ(removed->output_count(), 21);
  auto next = removed->tokens;
  next.push_back(5);
  const RequestId again = sim.add(next, generate(2));
  sim.run_until_idle();
  EXPECT_EQ(sim.finished(again)->sequence->cached_tokens, 384);
}

TEST(Scheduler, TakesARequestOutInAnyState) {
  Simulation sim({.blocks = 8, .max_num_seqs = 2});
  const RequestId decoding = sim.add(numbered(20), generate(50));
  sim.step();
  const RequestId prefilling = sim.add(numbered(300, 200), generate(50));
  sim.step();
  const RequestId waiting = sim.add(numbered(20, 600), generate(50));
  sim.step();
  for (const RequestId id : {decoding, prefilling, waiting}) {
    EXPECT_NE(sim.scheduler().remove(id), nullptr);
    sim.expect_sound();
    EXPECT_EQ(sim.scheduler().remove(id), nullptr);
  }
  EXPECT_TRUE(sim.scheduler().idle());
  EXPECT_EQ(sim.pool().referenced(), 0);
}

TEST(Scheduler, EndsWithLengthExactlyAtTheContextLimit) {
  Simulation sim({});
  const RequestId id = sim.add(numbered(510), generate(100));
  const RequestId endless = sim.add(numbered(10, 600), generate(1 << 30));
  sim.run_until_idle();
  EXPECT_EQ(sim.finished(id)->sequence->output_count(), 2);
  EXPECT_EQ(sim.finished(id)->reason, FinishReason::kLength);
  EXPECT_EQ(sim.finished(endless)->sequence->known(), 512);
}

TEST(Scheduler, ComputesOnlyThePromptWhenNoTokenIsWanted) {
  Simulation sim({});
  const RequestId id = sim.add(numbered(100), generate(0));
  sim.run_until_idle();
  EXPECT_EQ(sim.finished(id)->sequence->output_count(), 0);
  EXPECT_EQ(sim.finished(id)->reason, FinishReason::kLength);
}

TEST(Scheduler, ServesTheHigherPriorityFirst) {
  Simulation sim({.blocks = 12, .max_model_len = 700, .max_num_seqs = 2});
  const RequestId low = sim.add(numbered(300), generate(300), 5);
  const RequestId low_too = sim.add(numbered(300, 500), generate(60), 5);
  for (int i = 0; i < 8; ++i) sim.step();
  const RequestId high = sim.add(numbered(50, 700), generate(5), -1);
  sim.step();
  EXPECT_EQ(sim.ran(high), 50);  // at once: a lower one made room
  EXPECT_EQ(sim.scheduler().counters().preemptions, 1);
  sim.run_until_idle();
  EXPECT_NE(sim.finished(low), nullptr);
  EXPECT_NE(sim.finished(low_too), nullptr);
}

TEST(Scheduler, CountsNoPrefixHitsForWhatPreemptionRecomputes) {
  Simulation sim({.blocks = 8, .max_num_seqs = 4});
  for (int i = 0; i < 12; ++i) {
    std::vector<int32_t> prompt(100);
    std::mt19937 random(static_cast<uint32_t>(i));
    for (auto& token : prompt) token = static_cast<int32_t>(random() % 1000);
    sim.add(prompt, generate(150));
  }
  sim.run_until_idle();
  EXPECT_GT(sim.scheduler().counters().preemptions, 0);
  EXPECT_EQ(sim.scheduler().counters().prefix_cache_hits, 0);
  for (RequestId id = 1; id <= 12; ++id) EXPECT_EQ(sim.finished(id)->sequence->cached_tokens, 0);
}

TEST(Scheduler, BoundsTheRowsOfPromptLogprobs) {
  Simulation sim({});
  SamplingParams sampling = generate(3);
  sampling.prompt_logprobs = 2;
  sim.add(numbered(300), generate(2));
  sim.add(numbered(300), sampling);
  sim.add(numbered(200), sampling);
  sim.run_until_idle();  // step() checks the rows
  EXPECT_EQ(sim.finished(2)->sequence->cached_tokens, 0);
}

TEST(Scheduler, EndsOnlyTheSequenceWhoseSampleIsBad) {
  Simulation sim({});
  sim.add(numbered(70), generate(20));
  sim.add(numbered(80, 300), generate(20));
  StepPlan& plan = sim.scheduler().plan();
  ASSERT_EQ(plan.items.size(), 2U);
  // Only one of the two samples in this step: both prompts do not fit in 128 tokens.
  for (auto& item : plan.items) {
    if (item.samples) item.error = internal_error("nan");
  }
  const auto finished = sim.scheduler().commit(plan);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].reason, FinishReason::kError);
  EXPECT_NE(finished[0].sequence, nullptr);
  EXPECT_EQ(sim.scheduler().running(), 1U);
  EXPECT_EQ(sim.pool().cached(), 0) << "bad content must not be offered";
}

// Chunks that were registered before the logits turned out bad are taken back.
TEST(Scheduler, ForgetsEveryBlockOfASequenceWithBadLogits) {
  Simulation sim({});
  const RequestId bad = sim.add(numbered(300), generate(20));
  for (int i = 0; i < 5; ++i) sim.step();
  sim.fail_next();
  sim.step();
  ASSERT_NE(sim.finished(bad), nullptr);
  EXPECT_EQ(sim.finished(bad)->reason, FinishReason::kError);
  EXPECT_EQ(sim.pool().cached(), 0);
  const RequestId again = sim.add(numbered(300), generate(2));
  sim.run_until_idle();
  EXPECT_EQ(sim.finished(again)->sequence->cached_tokens, 0);
}

// Sixty turns of one session between those of three others, all in one pool that holds them:
// each turn finds all full blocks of the turn before.
TEST(Scheduler, FindsTheWholeHistoryOfAnAgentSessionInEveryTurn) {
  Simulation sim({.blocks = 1000, .max_model_len = 16000, .max_num_batched_tokens = 1024});
  std::vector<std::vector<int32_t>> history;
  for (int session = 0; session < 4; ++session) history.push_back(numbered(2000, session + 1));
  std::vector<int32_t> known(4, 0);
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<RequestId> ids;
    for (auto& tokens : history) ids.push_back(sim.add(tokens, generate(20)));
    sim.run_until_idle();
    for (size_t session = 0; session < 4; ++session) {
      const Sequence& sequence = *sim.finished(ids[session])->sequence;
      EXPECT_EQ(sequence.cached_tokens, known[session] / 64 * 64) << turn;
      known[session] = sequence.known() - 1;  // the last token of an answer is not computed
      history[session] = sequence.tokens;
      for (int i = 0; i < 37; ++i) history[session].push_back(turn + i);  // a tool's result
    }
  }
  EXPECT_EQ(sim.scheduler().counters().preemptions, 0);
}

// 30 requests of random priority and length in a pool for about 2.5 of them.
TEST(Scheduler, SurvivesPrioritiesInATinyPool) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Simulation sim({.blocks = 13,
                    .max_model_len = 400,
                    .max_num_seqs = 6,
                    .max_drafts = seed % 2 == 0 ? 0 : 3});
    const auto step = [&] {
      sim.add_drafts(3, [&](int32_t) { return random() % 4 != 0; });
      sim.step();
    };
    for (int i = 0; i < 30; ++i) {
      const auto length = static_cast<size_t>(10 + random() % 290);
      sim.add(numbered(length, static_cast<int32_t>(random() % 500)),
              generate(20 + i),
              static_cast<int32_t>(random() % 11) - 5);
      step();
    }
    while (!sim.scheduler().idle()) step();
    sim.expect_sound();
    for (RequestId id = 1; id <= 30; ++id) EXPECT_NE(sim.finished(id), nullptr);
  }
}

TEST(SchedulerDrafts, AreAcceptedAsFarAsTheyAreRight) {
  for (int32_t right = 0; right <= 5; ++right) {
    Simulation sim({.max_drafts = 5});
    const RequestId id = sim.add(numbered(20), generate(30));
    sim.step();
    sim.add_drafts(5, [&](int32_t i) { return i != right; });
    sim.step();
    EXPECT_EQ(sim.ran(id), 6);
    const Sequence& sequence = *sim.scheduler().running_sequences()[0];
    EXPECT_EQ(sequence.output_count(), 1 + right + 1);
    EXPECT_TRUE(sequence.decoding());
    const SchedulerCounters& counters = sim.scheduler().counters();
    EXPECT_EQ(counters.drafts, 1);
    EXPECT_EQ(counters.draft_tokens, 5);
    EXPECT_EQ(counters.accepted_drafts, right);
    for (int32_t i = 0; i < 5; ++i) {
      EXPECT_EQ(counters.accepted_at[static_cast<size_t>(i)], i < right ? 1 : 0);
    }
    sim.run_until_idle();  // compares the output
  }
}

// 40 tokens in as many steps, or in eight, and the same end at every limit.
TEST(SchedulerDrafts, EndWhereStepsOfOneTokenWouldEnd) {
  for (int32_t max_tokens = 1; max_tokens <= 40; ++max_tokens) {
    for (const uint64_t vocab : {5U, 1000U}) {  // of five tokens one is eos: it ends soon
      Simulation sim({.vocab = vocab, .max_drafts = 4});
      SamplingParams sampling;
      sampling.max_tokens = max_tokens;
      sampling.min_tokens = max_tokens / 2;
      const RequestId id = sim.add(numbered(20 + static_cast<size_t>(max_tokens)), sampling);
      int32_t steps = 0;
      for (; !sim.scheduler().idle(); ++steps) {
        sim.add_drafts(4, [](int32_t) { return true; });
        sim.step();
      }
      EXPECT_LE(steps, 1 + (max_tokens + 3) / 5);
      ASSERT_NE(sim.finished(id), nullptr);
      EXPECT_EQ(sim.pool().referenced(), 0);
    }
  }
}

TEST(SchedulerDrafts, OfAWrongRunEnterNoIndex) {
  Simulation sim({.max_drafts = 8});
  const RequestId id = sim.add(numbered(61), generate(40));
  sim.step();
  ASSERT_EQ(sim.index().size(), 0U);
  sim.add_drafts(8, [](int32_t) { return false; });  // positions 62 to 69: across the border
  sim.step();
  EXPECT_EQ(sim.ran(id), 9);
  EXPECT_EQ(sim.index().size(), 0U);
  const Sequence& sequence = *sim.scheduler().running_sequences()[0];
  EXPECT_EQ(sequence.computed, 62);
  EXPECT_EQ(sequence.blocks.size(), 1) << "the block for drafts goes back";
  sim.add_drafts(8, [](int32_t) { return true; });
  sim.step();
  EXPECT_EQ(sim.index().size(), 1U);
  sim.run_until_idle();
  const RequestId again = sim.add(sim.finished(id)->sequence->tokens, generate(2));
  sim.run_until_idle();  // compares what the found blocks hold
  EXPECT_EQ(sim.finished(again)->sequence->cached_tokens, 64);
}

TEST(SchedulerDrafts, AreDroppedRatherThanPreempt) {
  Simulation sim({.blocks = 3, .max_model_len = 192, .max_num_seqs = 2, .max_drafts = 8});
  const RequestId a = sim.add(numbered(60), generate(30));
  const RequestId b = sim.add(numbered(58, 300), generate(40));
  sim.step();
  sim.add_drafts(8, [](int32_t) { return false; });
  sim.step();
  EXPECT_EQ(sim.ran(a), 9);  // its drafts took the last block for this step
  EXPECT_EQ(sim.ran(b), 6);  // so those of b end with its block
  EXPECT_EQ(sim.scheduler().counters().preemptions, 0);
  sim.run_until_idle();
}

TEST(SchedulerDrafts, LeavePromptsHalfOfWhatDecodingLeaves) {
  Simulation sim(
      {.blocks = 60, .max_model_len = 2000, .max_num_batched_tokens = 20, .max_drafts = 8});
  for (int i = 0; i < 6; ++i) sim.add(numbered(3, i * 100), generate(200));
  for (int i = 0; i < 2; ++i) sim.step();
  const RequestId prompt = sim.add(numbered(200, 700), generate(1));
  for (int i = 0; i < 5; ++i) {
    sim.add_drafts(8, [](int32_t) { return true; });
    const StepPlan& plan = sim.step();
    EXPECT_EQ(plan.tokens, 20);
    EXPECT_EQ(sim.ran(prompt), 7);  // of the 14 that six decoding sequences leave
  }
}

TEST(SchedulerDrafts, AreForgottenByPreemption) {
  Simulation sim({.blocks = 4, .max_model_len = 256, .max_num_seqs = 2, .max_drafts = 4});
  const RequestId low = sim.add(numbered(100), generate(60), 1);
  for (int i = 0; i < 4; ++i) sim.step();
  sim.add_drafts(4, [](int32_t) { return true; });
  const RequestId high = sim.add(numbered(150, 400), generate(5), 0);
  sim.step();
  EXPECT_EQ(sim.scheduler().counters().preemptions, 1);
  EXPECT_EQ(sim.ran(low), 0);
  EXPECT_EQ(sim.scheduler().counters().draft_tokens, 0);
  sim.run_until_idle();
  EXPECT_NE(sim.finished(low), nullptr);
  EXPECT_NE(sim.finished(high), nullptr);
}

// Everything at once: shared prefixes, salts, priorities, cancellation, prompt logprobs,
// preemption, stops, right and wrong drafts. Every output must equal the one computed alone.
TEST(Scheduler, KeepsItsInvariantsForTenThousandRandomRounds) {
  int rounds = 0;
  int64_t preemptions = 0, hits = 0, accepted = 0, rejected = 0;
  for (uint32_t seed = 0; rounds < 10000; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](uint32_t n) { return static_cast<int32_t>(random() % n); };
    Simulation sim({.blocks = 6 + pick(20),
                    .max_model_len = 384,
                    .max_num_seqs = 1 + pick(8),
                    .max_num_batched_tokens = 16 + pick(200),
                    .caching = pick(4) != 0,
                    .vocab = static_cast<uint64_t>(2 + pick(60)),
                    .max_drafts = pick(3) == 0 ? 0 : 1 + pick(9)});
    std::vector<RequestId> open;
    for (int round = 0; round < 250; ++round, ++rounds) {
      while (pick(3) == 0) {
        // Few starting points, so that prefixes are often shared.
        std::vector<int32_t> prompt(static_cast<size_t>(1 + pick(300)), 1 + pick(2));
        for (int edits = pick(3); edits > 0; --edits) {
          prompt[static_cast<size_t>(pick(static_cast<uint32_t>(prompt.size())))] = pick(4);
        }
        SamplingParams sampling = generate(pick(120));
        sampling.ignore_eos = pick(2) == 0;
        sampling.min_tokens = std::min(sampling.max_tokens, pick(5));
        if (pick(10) == 0) sampling.prompt_logprobs = 1;
        open.push_back(
            sim.add(prompt, sampling, pick(4) == 0 ? pick(5) - 2 : 0, pick(5) == 0 ? "salt" : ""));
      }
      if (!open.empty() && pick(12) == 0) {
        sim.scheduler().remove(open[static_cast<size_t>(pick(static_cast<uint32_t>(open.size())))]);
      }
      if (pick(20) == 0) sim.fail_next();
      sim.add_drafts(pick(12), [&](int32_t) { return pick(5) != 0; });
      sim.step();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << " round " << round;
      if (round % 16 == 0) sim.expect_sound();
    }
    sim.run_until_idle();
    preemptions += sim.scheduler().counters().preemptions;
    hits += sim.scheduler().counters().prefix_cache_hits;
    accepted += sim.scheduler().counters().accepted_drafts;
    rejected += sim.scheduler().counters().draft_tokens;
    EXPECT_EQ(sim.pool().free() + sim.pool().cached(), sim.pool().total());
  }
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(hits, 10000);
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(rejected - accepted, 1000);
}

}  // namespace
}  // namespace baton
