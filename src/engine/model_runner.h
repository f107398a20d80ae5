// Turns a StepPlan into one forward pass. Owns every buffer of a step and the KV blocks, all
// allocated before the first request; engine thread.
//
// A step: the plan is written into pinned host memory, one copy brings it to the device, the
// model runs (or a captured graph of it), argmax gives a token per row, and one synchronisation
// brings back the tokens and those rows of logits that someone asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "device/scratch.h"
#include "engine/graph_plan.h"
#include "engine/memory_plan.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "scheduler/scheduler.h"

namespace baton {

class ModelRunner {
 public:
  // All are borrowed and outlive the runner. Errors: a buffer cannot be allocated.
  static Result<std::unique_ptr<ModelRunner>> create(const Model& model,
                                                     Device& device,
                                                     Queue& queue,
                                                     const KernelTable& kernels,
                                                     const EnginePlan& plan,
                                                     bool enable_graphs);

  // Rows of logits are numbered through the plan's items, Item::logit_rows() each.
  struct Output {
    std::span<const int32_t> tokens;  // [rows] largest logit, -1 for a row that has none
    std::span<float> logits;          // [rows, vocab] on the host; only wanted rows are filled
  };
  // `wanted[row]`: the host needs that row's logits. The output is valid until the next run.
  // An error is the device's: nothing more can be run.
  Result<Output> run(const StepPlan& plan, const std::vector<bool>& wanted);

  int64_t graph_replays() const { return graphs_.replays(); }

 private:
  ModelRunner(const Model& model, Queue& queue, const KernelTable& kernels, const StepSizes& sizes);

  // Where each input of a step lies in the staging memory, in ints.
  struct Layout {
    int64_t tokens = 0, sequences = 0, rows = 0, max_blocks = 0;
    int64_t positions() const { return tokens; }
    int64_t sequence_of() const { return 2 * tokens; }
    int64_t sampled_rows() const { return 3 * tokens; }
    int64_t block_table() const { return 3 * tokens + rows; }
    int64_t size() const { return block_table() + sequences * max_blocks; }
  };
  struct Step {
    Layout layout;
    int32_t max_context = 0;
    int64_t used_rows = 0;  // without padding
  };

  bool may_replay(const StepPlan& plan) const;
  Step stage(const StepPlan& plan, const GraphCell* cell);
  void stage_item(const StepPlan::Item& item, const Layout& layout, int64_t sequence);
  void stage_padding(const Layout& layout, int64_t first);
  void enqueue_forward(const Step& step);
  ConstTensor input(int64_t at, std::initializer_list<int64_t> dims) const;

  const Model& model_;
  Queue& queue_;
  const KernelTable& kernels_;
  StepSizes sizes_;
  GraphPlan graphs_;
  bool graphs_enabled_ = false;

  Buffer inputs_, host_inputs_;  // Layout
  Buffer logits_;                // [max_logit_rows, vocab] f32
  Buffer host_logits_;           // same, pinned; none where the host reads the device's
  bool host_addressable_ = false;
  Buffer ids_, host_ids_;  // [max_logit_rows] i32
  Buffer scratch_memory_;
  Buffer kv_;  // [kv_blocks + 1] blocks; contents are undefined until written

  int64_t next_token_ = 0, next_row_ = 0;  // while staging
  std::vector<int32_t> output_counts_;     // per row
  std::vector<uint64_t> request_ids_;      // per row
};

}  // namespace baton
