// The engine: one thread that owns scheduler, block pool, model runner and device queue.
// Everyone else talks to it through submit() and cancel(), from any thread; answers come back
// through Request::deliver. One request can never end it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "scheduler/request.h"

namespace baton {

// Where drafts come from: tokens that are likely to follow, verified in one step. They change the
// number of steps, never the tokens.
enum class DraftMethod : uint8_t {
  kModel,  // the model's own: the scripted model has a script, the others have none
  kNgram,  // what followed the last tokens where they stood before, in prompt or output
};
struct SpeculationOptions {
  DraftMethod method = DraftMethod::kModel;
  // With kNgram:
  int32_t num_speculative_tokens = 0;  // drafts of one sequence and step, at most kMaxDrafts
  int32_t prompt_lookup_max = 5;       // tokens that must have stood there before: at most
  int32_t prompt_lookup_min = 5;       // and at least
};
constexpr int32_t kMaxDrafts = 64;
constexpr int32_t kMaxPromptLookup = 32;

struct EngineOptions {
  int32_t max_model_len = 0;              // 0: the largest that fits, at most the model's own
  int32_t max_num_seqs = 64;              // sequences in one step
  int32_t max_num_batched_tokens = 4096;  // tokens in one step
  int32_t max_queued_requests = 1024;     // beyond it submit() refuses at once
  int64_t max_queued_tokens = 0;          // prompt tokens in the queue; 0: no limit. A single
                                          // request is taken at any size when none waits
  int64_t kv_cache_memory_bytes = 0;      // 0: from what memory is available
  int64_t kv_cache_tokens = 0;            // > 0: overrides the byte size
  double memory_utilization = 0.9;        // of available memory, when nothing else is given
  bool enable_prefix_caching = true;
  bool enable_graphs = true;    // decode graphs, where the device has them
  int32_t stream_interval = 1;  // tokens per delivery, the last one excepted
  uint64_t seed = 0;            // for requests without a seed
  SpeculationOptions speculation;
};

// Bytes, fixed before the first request.
struct MemoryPlan {
  int64_t weights_bytes = 0;
  int64_t workspace_bytes = 0;  // scratch, logits, batch tensors
  int64_t kv_bytes = 0;
  int64_t kv_blocks = 0;
  int32_t max_model_len = 0;
  std::string describe() const;  // a table of several lines
};

// Counters only grow; gauges are as of the last step.
struct EngineStats {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t blocks_total = 0;
  int64_t blocks_referenced = 0;
  int64_t blocks_cached = 0;  // free to be evicted, but holding a prefix
  int64_t preemptions = 0;
  int64_t prompt_tokens = 0;
  int64_t generation_tokens = 0;
  int64_t prefix_cache_queries = 0;  // prompt tokens looked up on first admission
  int64_t prefix_cache_hits = 0;     // of these, found
  int64_t steps = 0;
  int64_t finished_stop = 0;
  int64_t finished_length = 0;
  int64_t finished_abort = 0;
  int64_t finished_error = 0;
  int64_t graph_replays = 0;
  int64_t drafts = 0;                // steps of a sequence that had drafts
  int64_t draft_tokens = 0;          // drafts computed
  int64_t accepted_drafts = 0;       // of these, in the output
  std::vector<int64_t> accepted_at;  // the same by place in the draft; empty without drafts
};

class Engine {
 public:
  // Plans memory, allocates everything, starts the thread. The error says what does not fit,
  // in bytes, and which flag to change.
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<Model> model,
                                                std::unique_ptr<Device> device,
                                                const KernelTable& kernels,
                                                const EngineOptions& options);
  virtual ~Engine() = default;  // stops at once: open requests end with kAbort

  // kInvalidArgument: can never be served (empty prompt, too long, bad parameter);
  // kResourceExhausted: the queue is full; kUnavailable: stopped. deliver() is not called then.
  virtual Status submit(Request request) = 0;

  // Ends the request within one step, with kAbort, or kStop when its client found a stop
  // string. Unknown ids are ignored.
  virtual void cancel(RequestId id, FinishReason reason = FinishReason::kAbort) = 0;

  virtual EngineStats stats() const = 0;
  virtual const Model& model() const = 0;
  virtual const MemoryPlan& memory_plan() const = 0;

  // Seconds since the thread last finished a step or found nothing to do: a health probe's
  // measure of progress, independent of output. A dead engine never resets it.
  virtual double seconds_since_progress() const = 0;
  // False after an error that ended the engine (a device fault); submit() then refuses.
  virtual bool alive() const = 0;
  // No requests waiting or running.
  virtual bool idle() const = 0;
};

}  // namespace baton
