#include <algorithm>

#include "kernels/cpu/ops.h"
#include "kernels/reference/ops.h"

namespace baton::cpu {
namespace {

// Rows of x that an item holds in a 1 MiB L2 cache (768 KiB at 6,144 columns) while stored rows
// stream past them. Items of one block of x follow each other.
constexpr int64_t kBlockRows = 32;
constexpr int64_t kRunsPerThread = 8;  // enough that a late thread costs an eighth of its share

// A tile of one job's output.
struct Item {
  const MatmulJob* job;
  int64_t first_m, m;
  int64_t first_n, n;
};

int64_t stored_rows_per_item(const WeightView& weight) {
  constexpr int64_t kValues = 64 * 1024;  // long enough to stream, short enough to balance
  return std::clamp<int64_t>(kValues / std::max<int64_t>(weight.columns, 1) / 8 * 8, 8, 1024);
}

void append_items(const MatmulJob& job, std::pmr::vector<Item>& items) {
  const int64_t step_n = stored_rows_per_item(job.weight);
  for (int64_t m = 0; m < job.x.count; m += kBlockRows) {
    for (int64_t n = 0; n < job.weight.rows; n += step_n) {
      items.push_back({&job,
                       m,
                       std::min(kBlockRows, job.x.count - m),
                       n,
                       std::min(step_n, job.weight.rows - n)});
    }
  }
}

void run_item(const Microkernels& kernels, const Item& item) {
  const MatmulJob& job = *item.job;
  kernels.direct(job.weight,
                 item.first_n,
                 item.n,
                 job.x.part(item.first_m, item.m),
                 job.bias,
                 job.out.part(item.first_m, item.m).columns(item.first_n));
}

}  // namespace

bool supports(const WeightView& weight) {
  return weight.form != WeightForm::kFp8Block || weight.block_columns % kPad == 0;
}

void run_matmuls(const Microkernels& kernels, const OpCall& call, std::span<const MatmulJob> jobs) {
  auto items = call.list<Item>(std::ssize(jobs));
  double products = 0.0;
  for (const MatmulJob& job : jobs) {
    append_items(job, items);
    products += static_cast<double>(job.x.count * job.weight.rows) *
                static_cast<double>(job.weight.columns);
  }
  const auto count = static_cast<int64_t>(items.size());
  // About 20 products per nanosecond.
  const double cost = products / 20.0 / static_cast<double>(std::max<int64_t>(count, 1));
  // Long runs of neighbouring items per thread: taking turns at a small stride, two threads read
  // fp8 weights at 44 GB/s; a stretch each, at 64 to 67.
  const int64_t run = count / (call.threads().threads() * kRunsPerThread);
  const int64_t grain = std::max(grain_for(count, cost), run);
  call.threads().parallel_for(count, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) run_item(kernels, items[static_cast<size_t>(i)]);
  });
}

void matmul(const Microkernels& kernels, Queue& queue, const MatmulArgs& args) {
  BATON_CHECK(args.x.dim(1) == args.weight.columns, args.x.dim(1), args.weight.columns);
  BATON_CHECK(args.out.dim(1) == args.weight.rows, args.out.dim(1), args.weight.rows);
  if (!supports(args.weight)) {
    queue.count_fallback("matmul");
    return reference::matmul(queue, args);
  }
  const MatmulJob job{.x = {args.x.as<float>(), args.x.stride(0), args.x.dim(0)},
                      .weight = args.weight,
                      .bias = args.bias.as<float>(),
                      .out = {args.out.as<float>(), args.out.stride(0), args.out.dim(0)}};
  run_matmuls(kernels, OpCall(queue), {&job, 1});
}

void head_matmul(const Microkernels& kernels, Queue& queue, const HeadMatmulArgs& args) {
  const int64_t tokens = args.x.dim(0);
  const int64_t heads = args.weight.dim(0);
  const int64_t n = args.weight.dim(1);
  const int64_t k = args.weight.dim(2);
  BATON_CHECK(args.weight.contiguous());
  BATON_CHECK(args.x.dim(1) == heads && args.x.dim(2) == k, args.x.dim(1), args.x.dim(2));
  BATON_CHECK(args.out.dim(1) == heads && args.out.dim(2) == n, args.out.dim(1));
  const WeightForm form = args.weight.dtype == DType::kF32    ? WeightForm::kF32
                          : args.weight.dtype == DType::kBF16 ? WeightForm::kBF16
                                                              : WeightForm::kF16;
  const OpCall call(queue);
  auto jobs = call.list<MatmulJob>(heads);
  for (int64_t h = 0; h < heads; ++h) {
    const auto* matrix = static_cast<const std::byte*>(args.weight.data) +
                         h * n * k * dtype_bytes(args.weight.dtype);
    jobs.push_back(
        {.x = {args.x.as<float>() + h * args.x.stride(1), args.x.stride(0), tokens},
         .weight = {.data = matrix, .rows = n, .columns = k, .form = form},
         .bias = nullptr,
         .out = {args.out.as<float>() + h * args.out.stride(1), args.out.stride(0), tokens}});
  }
  run_matmuls(kernels, call, jobs);
}

}  // namespace baton::cpu
