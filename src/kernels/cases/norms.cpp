#include "kernels/cases/cases.h"

namespace baton {
namespace {

KernelCase rms_norm_case(int64_t rows, int64_t n, int64_t gap, float scale) {
  return {.name = "rms_norm/r" + std::to_string(rows) + "_n" + std::to_string(n) + "_gap" +
                  std::to_string(gap) + "_scale" + std::to_string(scale),
          .prepare = [=](CaseMemory& memory) {
            const RmsNormArgs args{.x = memory.normal_input({rows, n}, {.rows = gap}, scale),
                                   .weight = memory.normal_input({n}),
                                   .epsilon = 1e-6F,
                                   .out = memory.output(DType::kF32, {rows, n}, {.rows = gap})};
            return KernelCall{
                .run = [args](const KernelTable& t, Queue& q) { t.rms_norm(q, args); },
                .bytes = static_cast<double>(8 * rows * n)};
          }};
}

KernelCase rms_norm_in_place_case(int64_t rows, int64_t n) {
  return {
      .name = "rms_norm/in_place_r" + std::to_string(rows) + "_n" + std::to_string(n),
      .prepare = [=](CaseMemory& memory) {
        const Tensor x = memory.in_out(memory.normals(rows * n), {rows, n}, {.rows = 3});
        const RmsNormArgs args{
            .x = x, .weight = memory.normal_input({n}), .epsilon = 1e-5F, .out = x};
        return KernelCall{.run = [args](const KernelTable& t, Queue& q) { t.rms_norm(q, args); }};
      }};
}

KernelCase layer_norm_case(int64_t rows, int64_t n, int64_t gap, float offset, bool in_place) {
  return {.name = "layer_norm/r" + std::to_string(rows) + "_n" + std::to_string(n) + "_gap" +
                  std::to_string(gap) + "_offset" + std::to_string(offset) +
                  (in_place ? "_in_place" : ""),
          .prepare =
              [=](CaseMemory& memory) {
                std::vector<float> values = memory.normals(rows * n);
                for (float& value : values) value += offset;
                const ConstTensor weight = memory.normal_input({n});
                const ConstTensor bias = memory.normal_input({n});
                const Tensor out = in_place ? memory.in_out(values, {rows, n}, {.rows = gap})
                                            : memory.output(DType::kF32, {rows, n});
                const ConstTensor x =
                    in_place ? ConstTensor(out) : memory.input(values, {rows, n}, {.rows = gap});
                const LayerNormArgs args{
                    .x = x, .weight = weight, .bias = bias, .epsilon = 1e-6F, .out = out};
                return KernelCall{
                    .run = [args](const KernelTable& t, Queue& q) { t.layer_norm(q, args); }};
              },
          .tolerance = 1e-5};
}

}  // namespace

KernelCases norm_cases() {
  KernelCases cases;
  for (const int64_t n : {1, 7, 32, 64, 513, 2048, 6144}) {
    cases.push_back(rms_norm_case(3, n, 0, 1.0F));
    cases.push_back(rms_norm_in_place_case(2, n));
  }
  cases.push_back(rms_norm_case(0, 64, 0, 1.0F));
  cases.push_back(rms_norm_case(5, 512, 64, 1.0F));  // the latent's columns of kv_a_proj's output
  cases.push_back(rms_norm_case(2, 128, 0, 0.0F));
  cases.push_back(rms_norm_case(2, 128, 0, 1e-4F));  // the epsilon decides
  for (const int64_t n : {2, 16, 128, 130}) {
    cases.push_back(layer_norm_case(4, n, 5, 0.0F, false));
    cases.push_back(layer_norm_case(3, n, 1, 3.0F, true));
  }
  return cases;
}

}  // namespace baton
