// The conformance cases: one list per op, run by the tests over every table on every device and
// reused with real sizes by the benchmark. A case sets up its inputs from a fixed seed, so two
// tables given the same case get the same inputs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/cases/case_memory.h"

namespace baton {

// A prepared call; may be run again (ops that work in place then start from their own result).
struct KernelCall {
  std::function<void(const KernelTable&, Queue&)> run;
  double bytes = 0.0;       // weights and rows that must be read once
  double operations = 0.0;  // multiplications and additions
};

struct KernelCase {
  std::string name;  // "matmul/bf16_m5_n70_k144"
  std::function<KernelCall(CaseMemory&)> prepare;
  // Relative L2 distance to the reference that f32 arithmetic in any order stays within.
  double tolerance = 2e-6;
};

using KernelCases = std::vector<KernelCase>;

KernelCases embed_cases();
KernelCases norm_cases();
KernelCases matmul_cases();
KernelCases head_matmul_cases();
KernelCases rope_cases();
KernelCases elementwise_cases();
KernelCases store_cases();
KernelCases mla_attention_cases();
KernelCases gqa_attention_cases();
KernelCases index_scores_cases();
KernelCases select_top_k_cases();
KernelCases index_select_cases();
KernelCases route_cases();
KernelCases moe_cases();
KernelCases argmax_cases();
KernelCases all_kernel_cases();

// Single cases, for the benchmark's real sizes.
struct MatmulShape {
  WeightForm form = WeightForm::kF32;
  int64_t m = 1, n = 1, k = 1;
  bool bias = false;
  Gaps x_gaps = {}, out_gaps = {};
  int32_t block_rows = 128, block_columns = 128;  // fp8
};
KernelCase matmul_case(const MatmulShape& shape);

struct HeadMatmulShape {
  DType dtype = DType::kF32;
  int64_t tokens = 1, heads = 1, n = 1, k = 1;
  Gaps x_gaps = {}, out_gaps = {};
};
KernelCase head_matmul_case(const HeadMatmulShape& shape);

// `fresh` new tokens at the end of `context` tokens.
struct SequenceShape {
  int64_t context = 1;
  int64_t fresh = 1;
};

struct MlaShape {
  LatentRow row = {};
  int64_t heads = 1;
  std::vector<SequenceShape> sequences = {};
  int64_t top_k = 0;  // 0: no selection; more than a token sees: padded with -1
  Gaps q_rope_gaps = {};
};
KernelCase mla_attention_case(const MlaShape& shape);

struct GqaShape {
  PlainRow row = {};
  int64_t heads = 1;
  std::vector<SequenceShape> sequences = {};
  Gaps q_gaps = {};
};
KernelCase gqa_attention_case(const GqaShape& shape);

struct IndexShape {
  IndexPage page = {};
  int64_t heads = 1;
  std::vector<SequenceShape> sequences = {};
  int64_t top_k = 1;        // index_select only
  int64_t group = 1;        // index_select only
  int64_t first_token = 0;  // index_scores only
};
KernelCase index_scores_case(const IndexShape& shape);
KernelCase index_select_case(const IndexShape& shape);

struct TopKShape {
  std::string scores = {};  // "normal", "ties", "zeros", "nan", "minus_infinity", "ascending"
  std::vector<SequenceShape> sequences = {};
  int64_t top_k = 1;
  int64_t first_token = 0;
};
KernelCase select_top_k_case(const TopKShape& shape);

struct MoeShape {
  WeightForm form = WeightForm::kF32;
  int64_t tokens = 1, hidden = 1, intermediate = 1, experts = 1, top_k = 1;
};
KernelCase moe_case(const MoeShape& shape);

std::string_view weight_form_name(WeightForm form);

// Runs a case on a device from its seed and brings the outputs back.
CaseResult run_case(const KernelTable& table,
                    Device& device,
                    Queue& queue,
                    const KernelCase& kernel_case);

// Relative L2 distance; infinity where one side is NaN or infinite and the other is not the
// same. Equal non-finite values do not count.
double relative_distance(const std::vector<float>& got, const std::vector<float>& expected);

}  // namespace baton
