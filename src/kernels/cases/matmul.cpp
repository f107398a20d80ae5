#include "kernels/cases/cases.h"

namespace baton {
namespace {

double stored_bytes(WeightForm form, double values) {
  switch (form) {
    case WeightForm::kF32:
      return 4.0 * values;
    case WeightForm::kBF16:
    case WeightForm::kF16:
      return 2.0 * values;
    case WeightForm::kFp8Block:
      return values;
    case WeightForm::kNvfp4:
      return values * (0.5 + 1.0 / 16.0);
  }
  return 0.0;
}

std::string gaps_name(Gaps x, Gaps out) {
  return x.rows + x.heads + out.rows + out.heads > 0 ? "_strided" : "";
}

}  // namespace

KernelCase matmul_case(const MatmulShape& s) {
  std::string name = "matmul/" + std::string(weight_form_name(s.form)) + "_m" +
                     std::to_string(s.m) + "_n" + std::to_string(s.n) + "_k" + std::to_string(s.k) +
                     (s.bias ? "_bias" : "") + gaps_name(s.x_gaps, s.out_gaps);
  if (s.form == WeightForm::kFp8Block) {
    name += "_block" + std::to_string(s.block_rows) + "x" + std::to_string(s.block_columns);
  }
  return {.name = name, .prepare = [s](CaseMemory& memory) {
            const MatmulArgs args{
                .x = memory.normal_input({s.m, s.k}, s.x_gaps),
                .weight = memory.weight(s.form, s.n, s.k, s.block_rows, s.block_columns),
                .bias = s.bias ? memory.normal_input({s.n}) : ConstTensor(),
                .out = memory.output(DType::kF32, {s.m, s.n}, s.out_gaps)};
            const double values = static_cast<double>(s.n) * static_cast<double>(s.k);
            return KernelCall{.run = [args](const KernelTable& t, Queue& q) { t.matmul(q, args); },
                              .bytes = stored_bytes(s.form, values),
                              .operations = 2.0 * values * static_cast<double>(s.m)};
          }};
}

KernelCases matmul_cases() {
  KernelCases cases;
  for (const WeightForm form : {WeightForm::kF32,
                                WeightForm::kBF16,
                                WeightForm::kF16,
                                WeightForm::kFp8Block,
                                WeightForm::kNvfp4}) {
    for (const int64_t m : {0, 1, 2, 5, 17, 70}) {
      cases.push_back(matmul_case({.form = form, .m = m, .n = 70, .k = 144}));
    }
    cases.push_back(matmul_case({.form = form, .m = 5, .n = 1, .k = 16, .bias = true}));
    cases.push_back(matmul_case({.form = form, .m = 3, .n = 130, .k = 512, .bias = true}));
    cases.push_back(matmul_case({.form = form, .m = 33, .n = 49, .k = 1040}));
    cases.push_back(matmul_case(
        {.form = form, .m = 7, .n = 40, .k = 96, .x_gaps = {.rows = 5}, .out_gaps = {.rows = 3}}));
  }
  for (const WeightForm form : {WeightForm::kF32, WeightForm::kBF16, WeightForm::kF16}) {
    for (const int64_t k : {1, 7, 100}) {
      cases.push_back(matmul_case({.form = form, .m = 6, .n = 19, .k = k}));
    }
  }
  for (const int64_t m : {1, 9}) {
    // kv_a_proj_with_mqa: 576 rows are four and a half blocks.
    cases.push_back(matmul_case({.form = WeightForm::kFp8Block, .m = m, .n = 576, .k = 200}));
    cases.push_back(matmul_case({.form = WeightForm::kFp8Block,
                                 .m = m,
                                 .n = 50,
                                 .k = 77,
                                 .block_rows = 32,
                                 .block_columns = 32}));
    cases.push_back(matmul_case({.form = WeightForm::kFp8Block,
                                 .m = m,
                                 .n = 50,
                                 .k = 130,
                                 .block_rows = 7,
                                 .block_columns = 24}));
  }
  return cases;
}

KernelCase head_matmul_case(const HeadMatmulShape& s) {
  return {
      .name = "head_matmul/" + std::string(dtype_name(s.dtype)) + "_t" + std::to_string(s.tokens) +
              "_h" + std::to_string(s.heads) + "_n" + std::to_string(s.n) + "_k" +
              std::to_string(s.k) + gaps_name(s.x_gaps, s.out_gaps),
      .prepare = [s](CaseMemory& memory) {
        const int64_t values = s.heads * s.n * s.k;
        const HeadMatmulArgs args{
            .x = memory.normal_input({s.tokens, s.heads, s.k}, s.x_gaps),
            .weight =
                memory.stored_input(memory.normals(values, 0.1F), {s.heads, s.n, s.k}, s.dtype),
            .out = memory.output(DType::kF32, {s.tokens, s.heads, s.n}, s.out_gaps)};
        return KernelCall{.run = [args](const KernelTable& t, Queue& q) { t.head_matmul(q, args); },
                          .bytes = static_cast<double>(values * dtype_bytes(s.dtype)),
                          .operations = 2.0 * static_cast<double>(values * s.tokens)};
      }};
}

KernelCases head_matmul_cases() {
  KernelCases cases;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t tokens : {1, 4, 19}) {
      cases.push_back(
          head_matmul_case({.dtype = dtype, .tokens = tokens, .heads = 4, .n = 24, .k = 32}));
      // q_nope: the first 192 of every 256, into a contiguous latent query.
      cases.push_back(head_matmul_case({.dtype = dtype,
                                        .tokens = tokens,
                                        .heads = 2,
                                        .n = 80,
                                        .k = 192,
                                        .x_gaps = {.rows = 0, .heads = 64}}));
    }
    cases.push_back(head_matmul_case({.dtype = dtype,
                                      .tokens = 3,
                                      .heads = 3,
                                      .n = 5,
                                      .k = 13,
                                      .x_gaps = {.rows = 2, .heads = 1},
                                      .out_gaps = {.rows = 4, .heads = 3}}));
  }
  return cases;
}

}  // namespace baton
