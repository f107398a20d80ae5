#include <algorithm>

#include "kernels/cpu/ops.h"
#include "kernels/reference/ops.h"

namespace baton::cpu {
namespace {

// The (token, choice) pairs in order of expert, then of token.
struct Grouping {
  std::pmr::vector<int64_t> first;   // [experts + 1], into `pairs`
  std::pmr::vector<int32_t> pairs;   // token * top_k + choice
  std::pmr::vector<int32_t> row_of;  // inverse of pairs
};

Grouping group_by_expert(const MoeArgs& args, const OpCall& call) {
  const int64_t top_k = args.experts.dim(1);
  const int64_t count = args.experts.dim(0) * top_k;
  const auto expert = [&](int64_t pair) {
    return args.experts.as<int32_t>()[pair / top_k * args.experts.stride(0) + pair % top_k];
  };
  Grouping grouping{call.list<int64_t>(), call.list<int32_t>(), call.list<int32_t>()};
  grouping.first.assign(static_cast<size_t>(args.expert_count + 1), 0);
  grouping.pairs.resize(static_cast<size_t>(count));
  grouping.row_of.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    BATON_CHECK(expert(i) >= 0 && expert(i) < args.expert_count, expert(i));
    ++grouping.first[static_cast<size_t>(expert(i)) + 1];
  }
  for (size_t e = 1; e < grouping.first.size(); ++e) grouping.first[e] += grouping.first[e - 1];
  auto next = call.list<int64_t>();
  next.assign(grouping.first.begin(), grouping.first.end() - 1);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = next[static_cast<size_t>(expert(i))]++;
    grouping.pairs[static_cast<size_t>(row)] = static_cast<int32_t>(i);
    grouping.row_of[static_cast<size_t>(i)] = static_cast<int32_t>(row);
  }
  return grouping;
}

// Matrix `which` of every chosen expert, from rows of x to the same rows of out.
void append_jobs(const MoeArgs& args,
                 const Grouping& grouping,
                 int which,
                 const float* x,
                 float* out,
                 std::pmr::vector<MatmulJob>& jobs) {
  for (int64_t e = 0; e < args.expert_count; ++e) {
    const int64_t first = grouping.first[static_cast<size_t>(e)];
    const int64_t m = grouping.first[static_cast<size_t>(e + 1)] - first;
    if (m == 0) continue;
    const WeightView& weight = args.matrices[3 * e + which];
    jobs.push_back({.x = {x + first * weight.columns, weight.columns, m},
                    .weight = weight,
                    .bias = nullptr,
                    .out = {out + first * weight.rows, weight.rows, m}});
  }
}

// out[t] = sum of the weighted rows of its experts, in ascending order of expert.
void combine(const MoeArgs& args, const Grouping& grouping, const float* down, int64_t t) {
  const int64_t hidden = args.out.dim(1);
  const int64_t top_k = args.experts.dim(1);
  const int32_t* rows = grouping.row_of.data() + t * top_k;
  const float* weights = args.weights.as<float>() + t * args.weights.stride(0);
  float* out = args.out.as<float>() + t * args.out.stride(0);
  std::fill_n(out, hidden, 0.0F);
  for (int64_t j = 0; j < top_k; ++j) {
    const float* row = down + rows[j] * hidden;
    for (int64_t i = 0; i < hidden; ++i) out[i] += weights[j] * row[i];
  }
}

bool supports_all(const MoeArgs& args) {
  return std::all_of(args.matrices,
                     args.matrices + 3 * args.expert_count,
                     [](const WeightView& weight) { return supports(weight); });
}

}  // namespace

void moe(const Microkernels& kernels, Queue& queue, const MoeArgs& args) {
  if (!supports_all(args)) {
    queue.count_fallback("moe");
    return reference::moe(queue, args);
  }
  const OpCall call(queue);
  ThreadPool& threads = call.threads();
  const int64_t hidden = args.x.dim(1);
  const int64_t top_k = args.experts.dim(1);
  const int64_t count = args.experts.dim(0) * top_k;
  const int64_t part = args.workspace.elements() / 3;
  BATON_CHECK(count * std::max(hidden, args.intermediate) <= part, count, part);
  float* x = args.workspace.as<float>();  // [count, hidden], later the experts' outputs
  float* gate = x + part;                 // [count, intermediate]
  float* up = gate + part;                // [count, intermediate]
  const Grouping grouping = group_by_expert(args, call);

  const double row_cost = static_cast<double>(hidden) / 4.0;
  threads.parallel_for(count, grain_for(count, row_cost), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t t = grouping.pairs[static_cast<size_t>(row)] / top_k;
      std::copy_n(args.x.as<float>() + t * args.x.stride(0), hidden, x + row * hidden);
    }
  });
  auto jobs = call.list<MatmulJob>(2 * args.expert_count);
  append_jobs(args, grouping, 0, x, gate, jobs);
  append_jobs(args, grouping, 1, x, up, jobs);
  run_matmuls(kernels, call, jobs);
  const int64_t width = args.intermediate;
  threads.parallel_for(count, grain_for(count, row_cost), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      kernels.silu_mul(gate + row * width, up + row * width, width, gate + row * width);
    }
  });
  jobs.clear();
  append_jobs(args, grouping, 2, gate, x, jobs);
  run_matmuls(kernels, call, jobs);
  const int64_t tokens = args.out.dim(0);
  threads.parallel_for(tokens,
                       grain_for(tokens, row_cost * static_cast<double>(top_k)),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t t = begin; t < end; ++t) combine(args, grouping, x, t);
                       });
}

}  // namespace baton::cpu
