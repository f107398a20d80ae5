// A loaded model: weights on a device and a forward pass that is a list of kernel calls. It
// knows nothing of requests or schedules. Immutable after loading; forward() is called by the
// thread that owns the queue.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "device/scratch.h"
#include "kernels/kernels.h"
#include "kv_cache/block_layout.h"
#include "model/config.h"

namespace baton {

// Everything one forward pass reads and writes. Device tensors unless said.
struct ForwardContext {
  Queue& queue;
  const KernelTable& kernels;
  Scratch& scratch;
  const BatchLayout& batch;
  ConstTensor token_ids;     // [tokens] i32
  ConstTensor sampled_rows;  // [samples] i32, tokens whose logits are wanted
  uint8_t* kv_blocks;        // the pool: block b starts at kv_blocks + b * stride
  Tensor logits;             // out [samples, vocab]

  // Host values for models that are not matrices (scripted): for each sampled row, how many
  // output tokens its sequence has so far and which request it is. Empty otherwise.
  std::span<const int32_t> output_counts = {};
  std::span<const uint64_t> request_ids = {};

  // Tests and tools look inside through this; null in serving. Called after the work that
  // produces the tensor was enqueued.
  const std::function<void(std::string_view name, int layer, ConstTensor)>* observe = nullptr;
};

// What a model may look at when it says which tokens are likely to follow; host values.
struct DraftContext {
  std::span<const int32_t> tokens;  // all that is known: prompt, then output
  int32_t prompt_tokens = 0;
  uint64_t request_id = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const BlockLayout& block_layout() const = 0;
  virtual void forward(ForwardContext& context) const = 0;

  // False when forward() needs host values of each step (scripted): it is then never captured.
  virtual bool supports_graphs() const { return true; }
  // Drafts of the model's own for one sequence and step; 0: it has none.
  virtual int32_t max_drafts() const { return 0; }
  // Appends at most max_drafts() tokens. They may be wrong: that costs time, never changes output.
  virtual void draft(const DraftContext& /*context*/, std::vector<int32_t>& /*drafts*/) const {}

  // Device memory that the loaded weights take; 0 when there are none.
  virtual int64_t weights_bytes() const { return 0; }
  // Of these, pages of files that are used where they are: the system counts them as available.
  virtual int64_t mapped_bytes() const { return 0; }
};

struct LoadOptions {
  KvCacheDtype kv_cache_dtype = KvCacheDtype::kAuto;     // auto: bf16, f32 with dtype float32
  KvCacheDtype index_cache_dtype = KvCacheDtype::kAuto;  // auto: fp8 beside fp8/nvfp4 rows, else
                                                         // as the rows
  std::string dtype = "auto";  // "auto", "float32", "bfloat16": form of unquantised weights
  bool strict = false;         // refuse unconsumed config keys and tensors
  // Called from time to time while weights are read, and once at the end. May be empty.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;
};

// Loads a Hugging Face folder onto a device. Errors name file, tensor or key, expected and got.
Result<std::unique_ptr<Model>> load_model(const std::string& folder,
                                          Device& device,
                                          const LoadOptions& options);

}  // namespace baton
