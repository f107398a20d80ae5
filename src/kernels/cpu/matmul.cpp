#include <algorithm>
#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/reference/ops.h"

namespace baton::cpu {
namespace {

// Up to here the stored rows are converted again for every few rows of x; beyond, once into a
// panel that many rows of x share.
constexpr int64_t kDirectRows = 24;
// A panel of six rows and the four rows of x beside it stay in a 48 KiB L1 cache.
constexpr int64_t kPanelColumns = 1024;
constexpr int64_t kPanelStride = kPanelColumns + kPad;  // rows on different cache sets
// Rows of x that share an expanded panel, and panels per item: the packed block of x (260 KiB)
// and all chains (384 KiB) stay in a 1 MiB L2 cache. Fewer columns per panel would spend more
// on moving the chains.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kItemPanels = 16;
constexpr int64_t kItemRows = kItemPanels * kPanelRows;
constexpr int64_t kAccRow = kPanelRows * kPad;
constexpr int64_t kScratchFloats =
    (kPanelRows + kBlockRows) * kPanelStride + kItemPanels * kBlockRows * kAccRow;

// A tile of one job's output.
struct Item {
  const MatmulJob* job;
  int64_t first_m, m;
  int64_t first_n, n;
};

int64_t direct_rows_per_item(const WeightView& weight) {
  constexpr int64_t kValues = 64 * 1024;  // long enough to stream, short enough to balance
  return std::clamp<int64_t>(kValues / std::max<int64_t>(weight.columns, 1) / 8 * 8, 8, 1024);
}

void append_items(const MatmulJob& job, std::vector<Item>& items) {
  const bool direct = job.m <= kDirectRows;
  const int64_t step_m = direct ? job.m : kBlockRows;
  const int64_t step_n = direct ? direct_rows_per_item(job.weight) : kItemRows;
  for (int64_t n = 0; n < job.weight.rows; n += step_n) {
    for (int64_t m = 0; m < job.m; m += step_m) {
      items.push_back(
          {&job, m, std::min(step_m, job.m - m), n, std::min(step_n, job.weight.rows - n)});
    }
  }
}

void run_direct(const Microkernels& kernels, const Item& item) {
  const MatmulJob& job = *item.job;
  kernels.direct(job.weight,
                 item.first_n,
                 item.n,
                 job.x,
                 job.x_stride,
                 job.m,
                 job.bias,
                 job.out + item.first_n,
                 job.out_stride);
}

// scratch: a panel, the block of x, then kItemPanels x kBlockRows rows of chains. x is packed
// because rows a power of two apart would fall on each other in the cache.
void run_panels(const Microkernels& kernels, const Item& item, float* scratch) {
  const MatmulJob& job = *item.job;
  float* panel = scratch;
  float* block = panel + kPanelRows * kPanelStride;
  float* acc = block + kBlockRows * kPanelStride;
  const float* x = job.x + item.first_m * job.x_stride;
  const int64_t k = job.weight.columns;
  for (int64_t first = 0; first < k; first += kPanelColumns) {
    const int64_t count = std::min(kPanelColumns, k - first);
    for (int64_t i = 0; i < item.m; ++i) {
      std::copy_n(x + i * job.x_stride + first, count, block + i * kPanelStride);
    }
    for (int64_t p = 0; p * kPanelRows < item.n; ++p) {
      for (int64_t r = 0; r < kPanelRows; ++r) {
        const int64_t row = p * kPanelRows + r;
        // The last panel repeats its last row; the surplus is not written out.
        kernels.expand(job.weight,
                       item.first_n + std::min(row, item.n - 1),
                       first,
                       count,
                       panel + r * kPanelStride);
      }
      kernels.panel(x + first,
                    job.x_stride,
                    item.m,
                    panel,
                    kPanelStride,
                    count,
                    first == 0,
                    acc + p * kBlockRows * kAccRow);
    }
  }
  for (int64_t p = 0; p * kPanelRows < item.n; ++p) {
    const int64_t n = item.first_n + p * kPanelRows;
    for (int64_t i = 0; i < item.m; ++i) {
      kernels.finish(acc + (p * kBlockRows + i) * kAccRow,
                     std::min(kPanelRows, item.n - p * kPanelRows),
                     job.bias == nullptr ? nullptr : job.bias + n,
                     job.out + (item.first_m + i) * job.out_stride + n);
    }
  }
}

}  // namespace

bool supports(const WeightView& weight) {
  return weight.form != WeightForm::kFp8Block || weight.block_columns % kPad == 0;
}

void run_matmuls(const Microkernels& kernels,
                 ThreadPool& threads,
                 std::span<const MatmulJob> jobs) {
  std::vector<Item> items;
  double products = 0.0;
  bool panels = false;
  for (const MatmulJob& job : jobs) {
    if (job.m == 0) continue;
    append_items(job, items);
    products +=
        static_cast<double>(job.m * job.weight.rows) * static_cast<double>(job.weight.columns);
    panels = panels || job.m > kDirectRows;
  }
  const WorkerScratch scratch(threads, panels ? kScratchFloats : 0);
  const auto count = static_cast<int64_t>(items.size());
  // About 20 products per nanosecond.
  const double cost = products / 20.0 / static_cast<double>(std::max<int64_t>(count, 1));
  threads.parallel_for(count, grain_for(count, cost), [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const Item& item = items[static_cast<size_t>(i)];
      if (item.job->m <= kDirectRows) {
        run_direct(kernels, item);
      } else {
        run_panels(kernels, item, scratch.of(worker));
      }
    }
  });
}

void matmul(const Microkernels& kernels, Queue& queue, const MatmulArgs& args) {
  BATON_CHECK(args.x.dim(1) == args.weight.columns, args.x.dim(1), args.weight.columns);
  BATON_CHECK(args.out.dim(1) == args.weight.rows, args.out.dim(1), args.weight.rows);
  if (!supports(args.weight)) {
    queue.count_fallback("matmul");
    return reference::matmul(queue, args);
  }
  const MatmulJob job{.x = args.x.as<float>(),
                      .x_stride = args.x.stride(0),
                      .m = args.x.dim(0),
                      .weight = args.weight,
                      .bias = args.bias.as<float>(),
                      .out = args.out.as<float>(),
                      .out_stride = args.out.stride(0)};
  run_matmuls(kernels, cpu_queue(queue).threads(), {&job, 1});
}

void head_matmul(const Microkernels& kernels, Queue& queue, const HeadMatmulArgs& args) {
  const int64_t heads = args.weight.dim(0);
  const int64_t n = args.weight.dim(1);
  const int64_t k = args.weight.dim(2);
  BATON_CHECK(args.weight.contiguous());
  BATON_CHECK(args.x.dim(1) == heads && args.x.dim(2) == k, args.x.dim(1), args.x.dim(2));
  BATON_CHECK(args.out.dim(1) == heads && args.out.dim(2) == n, args.out.dim(1));
  const WeightForm form = args.weight.dtype == DType::kF32    ? WeightForm::kF32
                          : args.weight.dtype == DType::kBF16 ? WeightForm::kBF16
                                                              : WeightForm::kF16;
  std::vector<MatmulJob> jobs;
  for (int64_t h = 0; h < heads; ++h) {
    const auto* matrix = static_cast<const std::byte*>(args.weight.data) +
                         h * n * k * dtype_bytes(args.weight.dtype);
    jobs.push_back({.x = args.x.as<float>() + h * args.x.stride(1),
                    .x_stride = args.x.stride(0),
                    .m = args.x.dim(0),
                    .weight = {.data = matrix, .rows = n, .columns = k, .form = form},
                    .bias = nullptr,
                    .out = args.out.as<float>() + h * args.out.stride(1),
                    .out_stride = args.out.stride(0)});
  }
  run_matmuls(kernels, cpu_queue(queue).threads(), jobs);
}

}  // namespace baton::cpu
