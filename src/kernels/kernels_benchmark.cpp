// Speed of the kernel tables at real sizes, as a share of what this machine can do in this run.
//
//   kernels_benchmark [threads=N] [clock=wall|cpu] [--benchmark_filter=matmul]
//
// Ceilings are measured first: reading memory (GB/s) and fused multiply-adds (GFLOP/s), on as
// many threads as the tables get (default: one per core). Rates are those of the fastest
// iteration, because a shared machine makes means say more about its neighbours than about the
// code. On a machine that is busy throughout, threads=1 clock=cpu counts only the time that the
// kernel itself ran; the ceilings are taken by the same clock.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <cstdio>
#include <ctime>
#include <limits>
#include <string_view>

#if defined(BATON_HAS_OPENBLAS)
#include <cblas.h>
#endif

#include "device/cpu/cpu_device.h"
#include "kernels/cases/cases.h"
#include "kernels/cpu/levels.h"
#include "kernels/tables.h"

#if defined(BATON_HAS_OPENBLAS)
extern "C" void openblas_set_num_threads(int);
#endif

namespace baton {
namespace {

// How this run measures; set once by main.
struct Setting {
  int threads = 0;
  bool cpu_clock = false;
};

double now(const Setting& setting) {
  timespec time{};
  clock_gettime(setting.cpu_clock ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Ceilings {
  double gigabytes = 0.0;  // per second, reading
  double gigaflops = 0.0;
};

__attribute__((target("avx512f"))) float fma_avx512(int64_t rounds) {
  __m512 acc[16];
  for (auto& a : acc) a = _mm512_set1_ps(1.0F);
  const __m512 factor = _mm512_set1_ps(0.999F);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (auto& a : acc) a = _mm512_fmadd_ps(a, factor, factor);
  }
  for (int i = 1; i < 16; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  return _mm512_cvtss_f32(acc[0]);
}

__attribute__((target("avx2,fma"))) float fma_avx2(int64_t rounds) {
  __m256 acc[12];
  for (auto& a : acc) a = _mm256_set1_ps(1.0F);
  const __m256 factor = _mm256_set1_ps(0.999F);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm256_fmadd_ps(a, factor, factor);
  }
  for (int i = 1; i < 12; ++i) acc[0] = _mm256_add_ps(acc[0], acc[i]);
  return _mm256_cvtss_f32(acc[0]);
}

__attribute__((target("avx2"))) float read_avx2(const float* data, int64_t count) {
  __m256 acc[8];
  for (auto& a : acc) a = _mm256_setzero_ps();
  for (int64_t i = 0; i + 64 <= count; i += 64) {
    for (int j = 0; j < 8; ++j) {
      acc[j] = _mm256_add_ps(acc[j], _mm256_loadu_ps(data + i + int64_t{8} * j));
    }
  }
  for (int i = 1; i < 8; ++i) acc[0] = _mm256_add_ps(acc[0], acc[i]);
  return _mm256_cvtss_f32(acc[0]);
}

Ceilings measure_ceilings(ThreadPool& threads, const Setting& setting) {
  constexpr int64_t kFloats = int64_t{64} << 20;
  constexpr int64_t kPiece = int64_t{1} << 18;
  constexpr int64_t kRounds = 4'000'000;
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  const double flops_per_round = wide ? 16.0 * 16 * 2 : 12.0 * 8 * 2;
  std::vector<float> data(kFloats, 1.0F);
  Ceilings best;
  for (int attempt = 0; attempt < 8; ++attempt) {
    double start = now(setting);
    threads.parallel_for(kFloats / kPiece, 1, [&](int64_t begin, int64_t end, int) {
      benchmark::DoNotOptimize(read_avx2(data.data() + begin * kPiece, (end - begin) * kPiece));
    });
    best.gigabytes = std::max(best.gigabytes, 4e-9 * kFloats / (now(setting) - start));
    start = now(setting);
    threads.parallel_for(threads.threads(), 1, [&](int64_t, int64_t, int) {
      benchmark::DoNotOptimize(wide ? fma_avx512(kRounds) : fma_avx2(kRounds));
    });
    best.gigaflops =
        std::max(best.gigaflops,
                 1e-9 * flops_per_round * kRounds * threads.threads() / (now(setting) - start));
  }
  return best;
}

void report(benchmark::State& state,
            const Ceilings& ceilings,
            double seconds,
            double bytes,
            double operations) {
  state.counters["GB/s"] = bytes * 1e-9 / seconds;
  state.counters["GFLOP/s"] = operations * 1e-9 / seconds;
  state.counters["of_read"] = bytes * 1e-9 / seconds / ceilings.gigabytes;
  state.counters["of_fma"] = operations * 1e-9 / seconds / ceilings.gigaflops;
  state.counters["best_us"] = seconds * 1e6;
}

void run(benchmark::State& state,
         const KernelTable& table,
         const KernelCase& kernel_case,
         const Ceilings& ceilings,
         const Setting& setting) {
  const std::unique_ptr<Device> device = *open_device("cpu", setting.threads);
  const std::unique_ptr<Queue> queue = *device->create_queue();
  CaseMemory memory(*device, *queue, 1);
  const KernelCall call = kernel_case.prepare(memory);
  double fastest = std::numeric_limits<double>::infinity();
  for ([[maybe_unused]] auto _ : state) {
    const double start = now(setting);
    call.run(table, *queue);
    fastest = std::min(fastest, (now(setting) - start));
  }
  report(state, ceilings, fastest, call.bytes, call.operations);
}

#if defined(BATON_HAS_OPENBLAS)
void run_openblas(benchmark::State& state,
                  int m,
                  int n,
                  int k,
                  const Ceilings& ceilings,
                  const Setting& setting) {
  std::vector<float> x(static_cast<size_t>(m) * static_cast<size_t>(k), 0.5F);
  std::vector<float> w(static_cast<size_t>(n) * static_cast<size_t>(k), 0.5F);
  std::vector<float> out(static_cast<size_t>(m) * static_cast<size_t>(n));
  openblas_set_num_threads(setting.threads);
  double fastest = std::numeric_limits<double>::infinity();
  for ([[maybe_unused]] auto _ : state) {
    const double start = now(setting);
    if (m == 1) {
      cblas_sgemv(
          CblasRowMajor, CblasNoTrans, n, k, 1.0F, w.data(), k, x.data(), 1, 0.0F, out.data(), 1);
    } else {
      cblas_sgemm(CblasRowMajor,
                  CblasNoTrans,
                  CblasTrans,
                  m,
                  n,
                  k,
                  1.0F,
                  x.data(),
                  k,
                  w.data(),
                  k,
                  0.0F,
                  out.data(),
                  n);
    }
    fastest = std::min(fastest, (now(setting) - start));
  }
  report(state, ceilings, fastest, 4.0 * n * k, 2.0 * m * n * k);
}
#endif

constexpr WeightForm kForms[] = {WeightForm::kF32,
                                 WeightForm::kBF16,
                                 WeightForm::kF16,
                                 WeightForm::kFp8Block,
                                 WeightForm::kNvfp4};

// Sizes of GLM-5 and its small relatives; matrices larger than the last-level cache.
KernelCases real_sizes() {
  KernelCases cases;
  for (const WeightForm form : kForms) {
    const int64_t n = form == WeightForm::kNvfp4 ? 32768 : 12288;
    cases.push_back(matmul_case({.form = form, .m = 1, .n = n, .k = 6144}));
    cases.push_back(matmul_case({.form = form, .m = 4, .n = 12288, .k = 6144}));
    cases.push_back(matmul_case({.form = form, .m = 512, .n = 2048, .k = 6144}));
  }
  for (const int64_t m : {8, 12, 16, 32}) {
    cases.push_back(matmul_case({.form = WeightForm::kBF16, .m = m, .n = 8192, .k = 6144}));
  }
  for (const int64_t tokens : {1, 64}) {
    cases.push_back(head_matmul_case(
        {.dtype = DType::kBF16, .tokens = tokens, .heads = 64, .n = 512, .k = 192}));
  }
  for (const LatentRowFormat format : {LatentRowFormat::kF32,
                                       LatentRowFormat::kBF16,
                                       LatentRowFormat::kFp8,
                                       LatentRowFormat::kNvfp4}) {
    const LatentRow row{.format = format, .latent = 512, .rope = 64};
    cases.push_back(
        mla_attention_case({.row = row, .heads = 64, .sequences = {{.context = 8192}}}));
    cases.push_back(
        mla_attention_case({.row = row, .heads = 64, .sequences = {{8192, 1}}, .top_k = 2048}));
    cases.push_back(mla_attention_case({.row = row, .heads = 64, .sequences = {{2048, 64}}}));
    cases.push_back(mla_attention_case({.row = row, .heads = 4, .sequences = {{2048, 64}}}));
  }
  const PlainRow plain{.format = PlainRowFormat::kBF16, .kv_heads = 8, .head_dim = 128};
  cases.push_back(
      gqa_attention_case({.row = plain, .heads = 16, .sequences = {{.context = 8192}}}));
  cases.push_back(gqa_attention_case({.row = plain, .heads = 16, .sequences = {{2048, 128}}}));
  for (const IndexKeyFormat format : {IndexKeyFormat::kBF16, IndexKeyFormat::kFp8}) {
    const IndexPage page{.format = format, .dim = 128};
    cases.push_back(
        index_scores_case({.page = page, .heads = 32, .sequences = {{.context = 65536}}}));
    cases.push_back(index_scores_case({.page = page, .heads = 32, .sequences = {{16384, 64}}}));
  }
  cases.push_back(
      select_top_k_case({.scores = "normal", .sequences = {{.context = 131072}}, .top_k = 2048}));
  for (const int64_t tokens : {1, 64}) {
    cases.push_back(moe_case({WeightForm::kBF16, tokens, 2048, 1408, 32, 6}));
    cases.push_back(moe_case({WeightForm::kFp8Block, tokens, 2048, 1408, 32, 6}));
  }
  return cases;
}

void register_all(const Ceilings& ceilings, const Setting& setting) {
  std::vector<const KernelTable*> tables = cpu_levels();
  if (tables.front() != &reference_kernels()) tables.push_back(&reference_kernels());
  for (const KernelCase& kernel_case : real_sizes()) {
    for (const KernelTable* table : tables) {
      const std::string name = std::string(table->name) + "/" + kernel_case.name;
      auto* benchmark = benchmark::RegisterBenchmark(
          name.c_str(), [table, kernel_case, &ceilings, &setting](benchmark::State& state) {
            run(state, *table, kernel_case, ceilings, setting);
          });
      benchmark->Unit(benchmark::kMicrosecond)->UseRealTime();
      if (table == &reference_kernels()) benchmark->Iterations(1);
    }
  }
#if defined(BATON_HAS_OPENBLAS)
  for (const auto& [m, n] : {std::pair{1, 12288}, std::pair{4, 12288}, std::pair{512, 2048}}) {
    const std::string name =
        "openblas/matmul/f32_m" + std::to_string(m) + "_n" + std::to_string(n) + "_k6144";
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=, &ceilings, &setting](benchmark::State& state) {
                                   run_openblas(state, m, n, 6144, ceilings, setting);
                                 })
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }
#endif
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  baton::Setting setting;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "clock=cpu") setting.cpu_clock = true;
    if (argument.starts_with("threads=")) setting.threads = std::atoi(argv[i] + 8);
  }
  baton::CpuQueue queue(setting.threads);
  setting.threads = queue.threads().threads();
  if (setting.cpu_clock && setting.threads != 1) {
    std::fprintf(stderr, "clock=cpu counts one thread: it needs threads=1\n");
    return 2;
  }
  const baton::Ceilings ceilings = baton::measure_ceilings(queue.threads(), setting);
  std::printf("ceilings of this run, %d threads, %s clock: %.1f GB/s read, %.0f GFLOP/s f32 fma\n",
              setting.threads,
              setting.cpu_clock ? "cpu" : "wall",
              ceilings.gigabytes,
              ceilings.gigaflops);
#if !defined(BATON_HAS_OPENBLAS)
  std::printf("no rival: OpenBLAS was not found when this was configured\n");
#endif
  baton::register_all(ceilings, setting);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
