#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/composition.h"
#include "kernels/cpu/levels.h"
#include "kernels/cpu/ops.h"
#include "kernels/tables.h"

namespace baton {
namespace {

using Level = const cpu::Microkernels& (*)();

// An op of a table has no state; this one carries its instruction set as a template argument.
template <Level kLevel, typename Args, void (*kOp)(const cpu::Microkernels&, Queue&, const Args&)>
void run(Queue& queue, const Args& args) {
  kOp(kLevel(), queue, args);
}

template <Level kLevel>
void index_select(Queue& queue, const IndexSelectArgs& args);

// Starts as the reference, so that it is whole whatever it overrides.
template <Level kLevel>
const KernelTable& table_of(std::string_view name) {
  static const KernelTable whole = [&] {
    KernelTable table = reference_kernels();
    table.name = name;
    table.embed = &run<kLevel, EmbedArgs, &cpu::embed>;
    table.rms_norm = &run<kLevel, RmsNormArgs, &cpu::rms_norm>;
    table.layer_norm = &run<kLevel, LayerNormArgs, &cpu::layer_norm>;
    table.matmul = &run<kLevel, MatmulArgs, &cpu::matmul>;
    table.head_matmul = &run<kLevel, HeadMatmulArgs, &cpu::head_matmul>;
    table.rope = &run<kLevel, RopeArgs, &cpu::rope>;
    table.silu_mul = &run<kLevel, SiluMulArgs, &cpu::silu_mul>;
    table.add = &run<kLevel, AddArgs, &cpu::add>;
    table.gather_rows = &run<kLevel, GatherRowsArgs, &cpu::gather_rows>;
    table.store_latent = &run<kLevel, StoreLatentArgs, &cpu::store_latent>;
    table.store_index_keys = &run<kLevel, StoreIndexKeysArgs, &cpu::store_index_keys>;
    table.store_plain = &run<kLevel, StorePlainArgs, &cpu::store_plain>;
    table.mla_attention = &run<kLevel, MlaAttentionArgs, &cpu::mla_attention>;
    table.gqa_attention = &run<kLevel, GqaAttentionArgs, &cpu::gqa_attention>;
    table.index_scores = &run<kLevel, IndexScoresArgs, &cpu::index_scores>;
    table.select_top_k = &run<kLevel, SelectTopKArgs, &cpu::select_top_k>;
    table.index_select = &index_select<kLevel>;
    table.route = &run<kLevel, RouteArgs, &cpu::route>;
    table.moe = &run<kLevel, MoeArgs, &cpu::moe>;
    table.argmax = &run<kLevel, ArgmaxArgs, &cpu::argmax>;
    return table;
  }();
  return whole;
}

template <Level kLevel>
void index_select(Queue& queue, const IndexSelectArgs& args) {
  compose_index_select(table_of<kLevel>(""), queue, args);
}

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports() knows this one.
bool supports_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

std::vector<const KernelTable*> detect_levels() {
  std::vector<const KernelTable*> levels;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    if (__builtin_cpu_supports("avx512vbmi")) {
      levels.push_back(&table_of<&cpu::avx512_vbmi_microkernels>("cpu_avx512_vbmi"));
    }
    levels.push_back(&table_of<&cpu::avx512_microkernels>("cpu_avx512"));
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && supports_f16c()) {
    levels.push_back(&table_of<&cpu::avx2_microkernels>("cpu_avx2"));
  }
#endif
  if (levels.empty()) levels.push_back(&reference_kernels());
  return levels;
}

}  // namespace

const std::vector<const KernelTable*>& cpu_levels() {
  static const std::vector<const KernelTable*> levels = detect_levels();
  return levels;
}

const KernelTable& cpu_kernels() {
  return *cpu_levels().front();
}

}  // namespace baton
