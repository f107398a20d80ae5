// The ops of the CPU tables, written once over the microkernels of an instruction set. Work is
// split over outputs only, so results do not depend on the number of threads.
#pragma once

#include <memory_resource>
#include <span>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "kernels/cpu/microkernels.h"

namespace baton::cpu {

void embed(const Microkernels& kernels, Queue& queue, const EmbedArgs& args);
void rms_norm(const Microkernels& kernels, Queue& queue, const RmsNormArgs& args);
void matmul(const Microkernels& kernels, Queue& queue, const MatmulArgs& args);
void head_matmul(const Microkernels& kernels, Queue& queue, const HeadMatmulArgs& args);
void rope(const Microkernels& kernels, Queue& queue, const RopeArgs& args);
void silu_mul(const Microkernels& kernels, Queue& queue, const SiluMulArgs& args);
void add(const Microkernels& kernels, Queue& queue, const AddArgs& args);
void layer_norm(const Microkernels& kernels, Queue& queue, const LayerNormArgs& args);
void gather_rows(const Microkernels& kernels, Queue& queue, const GatherRowsArgs& args);
void store_latent(const Microkernels& kernels, Queue& queue, const StoreLatentArgs& args);
void store_index_keys(const Microkernels& kernels, Queue& queue, const StoreIndexKeysArgs& args);
void store_plain(const Microkernels& kernels, Queue& queue, const StorePlainArgs& args);
void mla_attention(const Microkernels& kernels, Queue& queue, const MlaAttentionArgs& args);
void gqa_attention(const Microkernels& kernels, Queue& queue, const GqaAttentionArgs& args);
void index_scores(const Microkernels& kernels, Queue& queue, const IndexScoresArgs& args);
void select_top_k(const Microkernels& kernels, Queue& queue, const SelectTopKArgs& args);
void route(const Microkernels& kernels, Queue& queue, const RouteArgs& args);
void moe(const Microkernels& kernels, Queue& queue, const MoeArgs& args);
void argmax(const Microkernels& kernels, Queue& queue, const ArgmaxArgs& args);

class OpCall;

// out = x weight^T (+ bias), as MatmulArgs, in plain pointers. x may have no rows.
struct MatmulJob {
  Rows<const float> x;  // [m, weight.columns]
  WeightView weight;
  const float* bias = nullptr;
  Rows<float> out;  // [m, weight.rows]
};

// False for fp8 blocks that cut a vector in two; those take the reference.
bool supports(const WeightView& weight);
// Runs independent products as one loop over their output tiles.
void run_matmuls(const Microkernels& kernels, const OpCall& call, std::span<const MatmulJob> jobs);

// What one call of an op uses of its queue: the threads, and memory that ends with the call.
class OpCall {
 public:
  explicit OpCall(CpuQueue& queue)
      : threads_(queue.threads()), memory_(queue.call_memory()), frame_(memory_) {}
  explicit OpCall(Queue& queue) : OpCall(cpu_queue(queue)) {}

  ThreadPool& threads() const { return threads_; }

  // An empty list that grows in the call's memory; `capacity` saves it the growing.
  template <typename T>
  std::pmr::vector<T> list(int64_t capacity = 0) const {
    std::pmr::vector<T> values(&memory_);
    values.reserve(static_cast<size_t>(capacity));
    return values;
  }

 private:
  friend class WorkerScratch;
  ThreadPool& threads_;
  CallMemory& memory_;
  CallMemory::Frame frame_;
};

// Per-worker floats of one call, on cache line borders. Contents are undefined.
class WorkerScratch {
 public:
  WorkerScratch(const OpCall& call, int64_t floats)
      : stride_(padded(floats)),
        data_(static_cast<float*>(call.memory_.take(
            static_cast<size_t>(stride_ * call.threads().threads()) * sizeof(float)))) {}
  float* of(int worker) const { return data_ + worker * stride_; }

 private:
  int64_t stride_;
  float* data_;
};

// The grain for parallel_for: everything in one piece when the work is too small to share.
// `cost`: rough nanoseconds per item.
int64_t grain_for(int64_t count, double cost);

// First token after `first` that a group may not hold: another sequence's, or the `most`-th.
int64_t group_end(const BatchLayout& batch, int64_t first, int64_t end, int64_t most);

}  // namespace baton::cpu
