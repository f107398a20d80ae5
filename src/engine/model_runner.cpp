#include "engine/model_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "kv_cache/block_pool.h"

namespace baton {
namespace {

// Takes buffers until one fails, and keeps that error.
class Allocation {
 public:
  explicit Allocation(Device& device) : device_(device) {}
  Buffer device(size_t bytes) { return keep(device_.allocate(std::max<size_t>(bytes, 1))); }
  Buffer host(size_t bytes) { return keep(device_.allocate_host(std::max<size_t>(bytes, 1))); }
  Status finish() { return std::move(status_); }

 private:
  Buffer keep(Result<Buffer> buffer) {
    if (buffer) return *std::move(buffer);
    if (status_) status_ = std::move(buffer).error();
    return {};
  }
  Device& device_;
  Status status_;
};

}  // namespace

ModelRunner::ModelRunner(const Model& model,
                         Queue& queue,
                         const KernelTable& kernels,
                         const StepSizes& sizes)
    : model_(model), queue_(queue), kernels_(kernels), sizes_(sizes) {}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(const Model& model,
                                                         Device& device,
                                                         Queue& queue,
                                                         const KernelTable& kernels,
                                                         const EnginePlan& plan,
                                                         bool enable_graphs) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner(model, queue, kernels, plan.sizes));
  const StepSizes& sizes = plan.sizes;
  const size_t ids_bytes = static_cast<size_t>(sizes.max_logit_rows) * sizeof(int32_t);
  Allocation allocation(device);
  runner->inputs_ = allocation.device(sizes.input_bytes);
  runner->host_inputs_ = allocation.host(sizes.input_bytes);
  runner->logits_ = allocation.device(sizes.logits_bytes - ids_bytes);
  runner->host_addressable_ = device.host_addressable();
  if (!device.host_addressable()) {
    runner->host_logits_ = allocation.host(sizes.logits_bytes - ids_bytes);
  }
  runner->ids_ = allocation.device(ids_bytes);
  runner->host_ids_ = allocation.host(ids_bytes);
  runner->scratch_memory_ = allocation.device(sizes.scratch_bytes);
  runner->kv_ = allocation.device(static_cast<size_t>(plan.memory.kv_bytes));
  if (Status status = allocation.finish(); !status) return status.error();
  runner->graphs_enabled_ = enable_graphs && queue.supports_graphs() && model.supports_graphs();
  return runner;
}

bool ModelRunner::may_replay(const StepPlan& plan) const {
  if (!graphs_enabled_ || !graphs_.usable()) return false;
  return std::ranges::all_of(plan.items, [](const StepPlan::Item& item) {
    return item.count == 1 + item.drafts && item.samples && !item.prompt_logprobs;
  });
}

Result<ModelRunner::Output> ModelRunner::run(const StepPlan& plan,
                                             const std::vector<bool>& wanted) {
  GraphCell cell;
  bool replay = may_replay(plan);
  if (replay) {
    int32_t context = 0;
    for (const StepPlan::Item& item : plan.items) {
      context = std::max(context, item.first + item.count);
    }
    cell = graph_cell(plan.tokens, context, {sizes_.max_decode_tokens(), sizes_.max_model_len});
  }
  const Step step = stage(plan, replay ? &cell : nullptr);
  queue_.copy(inputs_.data(),
              host_inputs_.data(),
              static_cast<size_t>(step.layout.size()) * sizeof(int32_t));
  const auto forward = [&] { enqueue_forward(step); };
  if (!replay || !graphs_.run(queue_, cell, forward)) forward();

  const auto rows = static_cast<size_t>(step.used_rows);
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  queue_.copy(host_ids_.data(), ids_.data(), rows * sizeof(int32_t));
  for (size_t row = 0; row < rows && !host_addressable_; ++row) {
    const size_t at = row * vocab * sizeof(float);
    if (wanted[row]) {
      queue_.copy(host_logits_.bytes() + at, logits_.bytes() + at, vocab * sizeof(float));
    }
  }
  if (Status status = queue_.synchronize(); !status) return status.error();
  return Output{.tokens = {static_cast<const int32_t*>(host_ids_.data()), rows},
                .logits = {static_cast<float*>((host_addressable_ ? logits_ : host_logits_).data()),
                           rows * vocab}};
}

ModelRunner::Step ModelRunner::stage(const StepPlan& plan, const GraphCell* cell) {
  Step step;
  step.used_rows = plan.logit_rows;
  const auto sequences = static_cast<int64_t>(plan.items.size());
  if (cell != nullptr) {
    step.max_context = cell->context;
    step.layout = {.tokens = cell->batch, .sequences = cell->batch, .rows = cell->batch};
  } else {
    for (const StepPlan::Item& item : plan.items) {
      step.max_context = std::max(step.max_context, item.first + item.count);
    }
    step.layout = {.tokens = plan.tokens, .sequences = sequences, .rows = plan.logit_rows};
  }
  step.layout.max_blocks = blocks_for_tokens(step.max_context);
  BATON_CHECK(static_cast<size_t>(step.layout.size()) * sizeof(int32_t) <= sizes_.input_bytes,
              "step larger than planned:",
              step.layout.tokens,
              "tokens");
  next_token_ = next_row_ = 0;
  output_counts_.clear();
  request_ids_.clear();
  for (int64_t i = 0; i < sequences; ++i) {
    stage_item(plan.items[static_cast<size_t>(i)], step.layout, i);
  }
  stage_padding(step.layout, sequences);
  BATON_CHECK(
      next_token_ == step.layout.tokens && next_row_ == step.layout.rows, next_token_, next_row_);
  return step;
}

void ModelRunner::stage_item(const StepPlan::Item& item, const Layout& layout, int64_t sequence) {
  auto* ints = static_cast<int32_t*>(host_inputs_.data());
  const Sequence& from = *item.sequence;
  for (int32_t i = 0; i < item.count; ++i, ++next_token_) {
    const int32_t position = item.first + i;
    ints[next_token_] = from.token(position);
    ints[layout.positions() + next_token_] = position;
    ints[layout.sequence_of() + next_token_] = static_cast<int32_t>(sequence);
    if (i < item.count - item.logit_rows()) continue;
    ints[layout.sampled_rows() + next_row_++] = static_cast<int32_t>(next_token_);
    output_counts_.push_back(std::max(0, position + 1 - from.prompt_tokens));
    request_ids_.push_back(from.request.id);
  }
  int32_t* table = ints + layout.block_table() + sequence * layout.max_blocks;
  const auto blocks = from.blocks.ids();
  const auto used = std::min(blocks.size(), static_cast<size_t>(layout.max_blocks));
  std::copy_n(blocks.begin(), used, table);
  std::fill(table + used, table + layout.max_blocks, -1);
}

// Padding sequences compute token 0 at position 0 of the scratch block; nobody reads their rows.
// With drafts there are more of them than tokens to pad: the last ones compute nothing.
void ModelRunner::stage_padding(const Layout& layout, int64_t first) {
  auto* ints = static_cast<int32_t*>(host_inputs_.data());
  for (int64_t i = first; i < layout.sequences; ++i) {
    int32_t* table = ints + layout.block_table() + i * layout.max_blocks;
    std::fill(table, table + layout.max_blocks, -1);
    table[0] = kScratchBlock;
    if (next_token_ == layout.tokens) continue;
    ints[next_token_] = 0;
    ints[layout.positions() + next_token_] = 0;
    ints[layout.sequence_of() + next_token_] = static_cast<int32_t>(i);
    ints[layout.sampled_rows() + next_row_++] = static_cast<int32_t>(next_token_++);
  }
}

ConstTensor ModelRunner::input(int64_t at, std::initializer_list<int64_t> dims) const {
  const auto* ints = static_cast<const int32_t*>(inputs_.data());
  return make_tensor(static_cast<const void*>(ints + at), DType::kI32, dims);
}

void ModelRunner::enqueue_forward(const Step& step) {
  const Layout& at = step.layout;
  const int64_t vocab = model_.config().vocab_size;
  Scratch scratch(scratch_memory_.data(), scratch_memory_.size());
  const BatchLayout batch{.positions = input(at.positions(), {at.tokens}),
                          .sequence_of = input(at.sequence_of(), {at.tokens}),
                          .block_table = input(at.block_table(), {at.sequences, at.max_blocks}),
                          .max_context = step.max_context};
  ForwardContext context{.queue = queue_,
                         .kernels = kernels_,
                         .scratch = scratch,
                         .batch = batch,
                         .token_ids = input(0, {at.tokens}),
                         .sampled_rows = input(at.sampled_rows(), {at.rows}),
                         .kv_blocks = static_cast<uint8_t*>(kv_.data()),
                         .logits = make_tensor(logits_.data(), DType::kF32, {at.rows, vocab}),
                         .output_counts = output_counts_,
                         .request_ids = request_ids_};
  model_.forward(context);
  if (at.rows > 0) {
    kernels_.argmax(
        queue_,
        {.logits = context.logits, .out = make_tensor(ids_.data(), DType::kI32, {at.rows})});
  }
}

}  // namespace baton
