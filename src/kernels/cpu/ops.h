// The ops of the CPU tables, written once over the microkernels of an instruction set. Work is
// split over outputs only, so results do not depend on the number of threads.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>

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
void mla_attention(const Microkernels& kernels, Queue& queue, const MlaAttentionArgs& args);
void gqa_attention(const Microkernels& kernels, Queue& queue, const GqaAttentionArgs& args);
void index_scores(const Microkernels& kernels, Queue& queue, const IndexScoresArgs& args);
void select_top_k(const Microkernels& kernels, Queue& queue, const SelectTopKArgs& args);
void moe(const Microkernels& kernels, Queue& queue, const MoeArgs& args);
void argmax(const Microkernels& kernels, Queue& queue, const ArgmaxArgs& args);

// out = x weight^T (+ bias), as MatmulArgs, in plain pointers. m may be 0.
struct MatmulJob {
  const float* x = nullptr;  // [m, weight.columns]
  int64_t x_stride = 0;
  int64_t m = 0;
  WeightView weight;
  const float* bias = nullptr;
  float* out = nullptr;  // [m, weight.rows]
  int64_t out_stride = 0;
};

// False for fp8 blocks that cut a vector in two; those take the reference.
bool supports(const WeightView& weight);
// Runs independent products as one loop over their output tiles.
void run_matmuls(const Microkernels& kernels, ThreadPool& threads, std::span<const MatmulJob> jobs);

// Per-worker floats for one call, on cache line borders. Contents start as zeros.
class WorkerScratch {
 public:
  WorkerScratch(const ThreadPool& threads, int64_t floats);
  float* of(int worker) const { return data_.get() + worker * stride_; }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  int64_t stride_;
  std::unique_ptr<float, Free> data_;
};

// The grain for parallel_for: everything in one piece when the work is too small to share.
// `cost`: rough nanoseconds per item.
int64_t grain_for(int64_t count, double cost);

// First token after `first` that a group may not hold: another sequence's, or the `most`-th.
int64_t group_end(const BatchLayout& batch, int64_t first, int64_t end, int64_t most);

}  // namespace baton::cpu
