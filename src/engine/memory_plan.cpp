#include "engine/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>

#include "device/scratch.h"
#include "engine/speculation.h"
#include "kernels/tables.h"
#include "kv_cache/block_pool.h"

namespace baton {
namespace {

size_t scratch_for(const Model& model,
                   Queue& queue,
                   int64_t tokens,
                   int64_t rows,
                   int64_t sequences,
                   int32_t context) {
  Scratch scratch;
  Scratch inputs;  // has its own place in the plan
  const auto ints = [&](std::initializer_list<int64_t> dims) {
    return inputs.take(DType::kI32, dims);
  };
  const BatchLayout batch{.positions = ints({tokens}),
                          .sequence_of = ints({tokens}),
                          .block_table = ints({sequences, blocks_for_tokens(context)}),
                          .max_context = context};
  ForwardContext forward{.queue = queue,
                         .kernels = planning_kernels(),
                         .scratch = scratch,
                         .batch = batch,
                         .token_ids = ints({tokens}),
                         .sampled_rows = ints({rows}),
                         .kv_blocks = nullptr,
                         .logits = inputs.take({rows, model.config().vocab_size})};
  model.forward(forward);
  return scratch.peak_bytes();
}

StepSizes sizes_for(const Model& model,
                    Queue& queue,
                    const EngineOptions& options,
                    int32_t max_model_len,
                    bool host_addressable) {
  StepSizes sizes;
  sizes.max_model_len = max_model_len;
  sizes.max_num_seqs = options.max_num_seqs;
  sizes.max_tokens = options.max_num_batched_tokens;
  sizes.max_drafts = max_drafts(options.speculation, model);
  // Drafts never fill more than a step's tokens.
  sizes.max_draft_rows = static_cast<int32_t>(std::min<int64_t>(
      int64_t{sizes.max_drafts} * sizes.max_num_seqs, (sizes.max_tokens - sizes.max_num_seqs) / 2));
  sizes.max_logit_rows = sizes.max_decode_tokens() + kPromptLogprobRows;
  sizes.max_blocks = blocks_for_tokens(max_model_len);
  // A model may cut its work by context: the largest step is not always the one that needs most.
  for (int64_t context = kBlockTokens;; context *= 2) {
    const auto length = static_cast<int32_t>(std::min<int64_t>(context, max_model_len));
    for (const int32_t tokens : {sizes.max_decode_tokens(), sizes.max_tokens}) {
      sizes.scratch_bytes = std::max(sizes.scratch_bytes,
                                     scratch_for(model,
                                                 queue,
                                                 tokens,
                                                 std::min(tokens, sizes.max_logit_rows),
                                                 sizes.max_decode_tokens(),
                                                 length));
    }
    if (length == max_model_len) break;
  }
  // A replayed step with drafts is padded to as many sequences as tokens.
  const int64_t ints = 3 * static_cast<int64_t>(sizes.max_tokens) + sizes.max_logit_rows +
                       sizes.max_decode_tokens() * sizes.max_blocks;
  sizes.input_bytes = static_cast<size_t>(ints) * sizeof(int32_t);
  sizes.logits_bytes =
      static_cast<size_t>(sizes.max_logit_rows * (model.config().vocab_size + 1)) * sizeof(float);
  // The host's copies of inputs and token ids; it reads the logits where they are.
  if (host_addressable) {
    sizes.host_bytes =
        sizes.input_bytes + static_cast<size_t>(sizes.max_logit_rows) * sizeof(int32_t);
  }
  return sizes;
}

// Flags may ask for more bytes than there are numbers.
int64_t saturated_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

std::string megabytes(int64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
  return text;
}

Status check_options(const Model& model, const EngineOptions& options) {
  const auto expect = [](bool ok, const char* flag, const char* expected, auto got) -> Status {
    if (ok) return {};
    return invalid_argument(std::string(flag) + ": expected " + expected + ", got " +
                            std::to_string(got));
  };
  const int64_t model_max = model.config().max_position_embeddings;
  Status status = expect(options.max_num_seqs >= 1 && options.max_num_seqs <= 65536,
                         "max_num_seqs",
                         "1..65536",
                         options.max_num_seqs);
  if (!status) return status;
  status = expect(options.max_num_batched_tokens >= options.max_num_seqs &&
                      options.max_num_batched_tokens <= (1 << 24),
                  "max_num_batched_tokens",
                  "at least max_num_seqs",
                  options.max_num_batched_tokens);
  if (!status) return status;
  status = expect(options.max_model_len >= 0, "max_model_len", ">= 0", options.max_model_len);
  if (!status) return status;
  if (options.max_model_len > model_max) {
    return invalid_argument("max_model_len: the model allows at most " + std::to_string(model_max) +
                            " tokens (max_position_embeddings), got " +
                            std::to_string(options.max_model_len));
  }
  status = expect(options.memory_utilization > 0.0 && options.memory_utilization <= 1.0,
                  "memory_utilization",
                  "(0, 1]",
                  options.memory_utilization);
  if (!status) return status;
  status = expect(options.kv_cache_memory_bytes >= 0 && options.kv_cache_tokens >= 0,
                  "kv_cache_memory_bytes and kv_cache_tokens",
                  ">= 0",
                  std::min(options.kv_cache_memory_bytes, options.kv_cache_tokens));
  if (!status) return status;
  status = expect(
      options.max_queued_requests >= 1, "max_queued_requests", ">= 1", options.max_queued_requests);
  if (!status) return status;
  status = expect(options.stream_interval >= 1, "stream_interval", ">= 1", options.stream_interval);
  if (!status) return status;
  return check_speculation(options.speculation);
}

// What is known while trying values of max_model_len.
struct Budget {
  const Model& model;
  Queue& queue;
  const EngineOptions& options;
  bool host_addressable = false;
  int64_t available = 0;  // beside mapped weights
  int64_t stride = 0;

  bool is_sized() const { return options.kv_cache_tokens > 0 || options.kv_cache_memory_bytes > 0; }
  // Bytes for KV when a step needs `sizes`.
  int64_t kv_bytes(const StepSizes& sizes) const {
    if (options.kv_cache_tokens > 0) {
      const int64_t tokens = std::min<int64_t>(options.kv_cache_tokens, int64_t{1} << 62);
      return saturated_product(blocks_for_tokens(tokens) + 1, stride);
    }
    if (options.kv_cache_memory_bytes > 0) return options.kv_cache_memory_bytes;
    const double usable = options.memory_utilization * static_cast<double>(available);
    return static_cast<int64_t>(usable) - static_cast<int64_t>(sizes.device_bytes());
  }
  // Without the scratch block.
  int64_t blocks(const StepSizes& sizes) const { return kv_bytes(sizes) / stride - 1; }
  StepSizes sizes(int64_t max_model_len) const {
    return sizes_for(model, queue, options, static_cast<int32_t>(max_model_len), host_addressable);
  }
  bool fits(int64_t max_model_len) const {
    return blocks(sizes(max_model_len)) >= blocks_for_tokens(max_model_len);
  }
  // The largest multiple of a block (or the limit itself) that fits; 0: none.
  int64_t largest(int64_t limit) const {
    if (fits(limit)) return limit;
    int64_t low = 0, high = blocks_for_tokens(limit);  // in blocks; high does not fit
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (fits(middle * kBlockTokens) ? low : high) = middle;
    }
    return low * kBlockTokens;
  }
};

Error does_not_fit(const Budget& budget, int64_t wanted) {
  const StepSizes sizes = budget.sizes(wanted);
  const int64_t needed = (blocks_for_tokens(wanted) + 1) * budget.stride;
  const int64_t possible = budget.largest(wanted);
  std::string text = "max_model_len " + std::to_string(wanted) + " needs " + megabytes(needed) +
                     " of KV cache, " + megabytes(std::max<int64_t>(0, budget.kv_bytes(sizes))) +
                     " are there (" + megabytes(std::max<int64_t>(0, budget.available)) +
                     " available beside the weights";
  text += ", " + megabytes(static_cast<int64_t>(sizes.device_bytes())) + " workspace)";
  text += possible > 0 ? "; lower --max-model-len to at most " + std::to_string(possible)
                       : "; not even one block fits: lower --max-num-seqs or "
                         "--max-num-batched-tokens";
  return resource_exhausted(text + (budget.is_sized()
                                        ? ", or raise --kv-cache-memory-bytes or --kv-cache-tokens"
                                        : ", or raise --gpu-memory-utilization"));
}

}  // namespace

std::string MemoryPlan::describe() const {
  const auto line = [](const char* what, int64_t bytes) {
    char text[96];
    std::snprintf(text,
                  sizeof text,
                  "  %-12s %14lld bytes (%s)\n",
                  what,
                  static_cast<long long>(bytes),
                  megabytes(bytes).c_str());
    return std::string(text);
  };
  return "memory plan\n" + line("weights", weights_bytes) + line("workspace", workspace_bytes) +
         line("kv cache", kv_bytes) + "  kv blocks    " + std::to_string(kv_blocks) + " of " +
         std::to_string(kBlockTokens) + " tokens = " + std::to_string(kv_blocks * kBlockTokens) +
         " tokens\n  max_model_len " + std::to_string(max_model_len);
}

Result<EnginePlan> plan_memory(const Model& model,
                               const Device& device,
                               Queue& queue,
                               const EngineOptions& options) {
  if (Status status = check_options(model, options); !status) return status.error();
  const Budget budget{
      .model = model,
      .queue = queue,
      .options = options,
      .host_addressable = device.host_addressable(),
      .available = static_cast<int64_t>(device.memory().available_bytes) - model.mapped_bytes(),
      .stride = model.block_layout().stride_bytes};
  const int64_t model_max = model.config().max_position_embeddings;
  const int64_t wanted = options.max_model_len > 0 ? options.max_model_len : model_max;
  if (options.max_model_len > 0 && !budget.fits(wanted)) return does_not_fit(budget, wanted);
  const int64_t length = budget.largest(wanted);
  if (length == 0) return does_not_fit(budget, std::min<int64_t>(wanted, kBlockTokens));

  EnginePlan plan{.memory = {}, .sizes = budget.sizes(length)};
  int64_t blocks = budget.blocks(plan.sizes);
  // Host memory is shared with everything else on the machine: no more than can be in use.
  if (!budget.is_sized() && device.host_addressable()) {
    blocks = std::min(blocks, options.max_num_seqs * plan.sizes.max_blocks);
  }
  blocks = std::min<int64_t>(blocks, (1LL << 31) - 2);
  const int64_t kv_bytes = saturated_product(blocks + 1, budget.stride);
  const int64_t workspace = static_cast<int64_t>(plan.sizes.device_bytes());
  if (kv_bytes > budget.available - workspace) {
    return resource_exhausted("kv cache: " + std::to_string(kv_bytes) + " bytes and " +
                              std::to_string(workspace) + " bytes of workspace are more than the " +
                              std::to_string(std::max<int64_t>(0, budget.available)) +
                              " bytes available beside the weights; lower --kv-cache-memory-bytes "
                              "or --kv-cache-tokens to at most " +
                              std::to_string(std::max<int64_t>(0, budget.available - workspace)) +
                              " bytes");
  }
  plan.memory = {.weights_bytes = model.weights_bytes(),
                 .workspace_bytes = workspace,
                 .kv_bytes = kv_bytes,
                 .kv_blocks = blocks,
                 .max_model_len = static_cast<int32_t>(length)};
  return plan;
}

}  // namespace baton
