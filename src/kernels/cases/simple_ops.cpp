// embed, rope, silu_mul, add, gather_rows, argmax.
#include <cmath>
#include <limits>

#include "kernels/cases/cases.h"

namespace baton {

KernelCases embed_cases() {
  KernelCases cases;
  for (const WeightForm form : {WeightForm::kF32, WeightForm::kBF16, WeightForm::kF16}) {
    for (const int64_t hidden : {5, 64, 200}) {
      cases.push_back(
          {.name = "embed/" + std::string(weight_form_name(form)) + "_h" + std::to_string(hidden),
           .prepare =
               [=](CaseMemory& memory) {
                 const EmbedArgs args{
                     .table = memory.weight(form, 50, hidden),
                     .token_ids = memory.input(std::vector<int32_t>{49, 0, 7, 7, 31}, {5}),
                     .out = memory.output(DType::kF32, {5, hidden}, {.rows = 3})};
                 return KernelCall{
                     .run = [args](const KernelTable& t, Queue& q) { t.embed(q, args); }};
               },
           .tolerance = 0.0});
    }
  }
  return cases;
}

namespace {

// Long positions: there one unit in the last place of the f32 angle is 0.06 radians.
KernelCase rope_case(bool interleaved, int64_t heads, int64_t n, float factor, Gaps gaps) {
  return {
      .name = std::string("rope/") + (interleaved ? "interleaved" : "half_split") + "_h" +
              std::to_string(heads) + "_n" + std::to_string(n) + "_factor" +
              std::to_string(factor) + (gaps.rows + gaps.heads > 0 ? "_strided" : ""),
      .prepare =
          [=](CaseMemory& memory) {
            const std::vector<int32_t> positions = {0, 1, 63, 4096, 202751, 1048575};
            std::vector<float> inv_freq;
            for (int64_t i = 0; i < n / 2; ++i) {
              inv_freq.push_back(1.0F /
                                 std::pow(8e6F, static_cast<float>(2 * i) / static_cast<float>(n)));
            }
            const RopeArgs args{
                .x = memory.in_out(memory.normals(6 * heads * n), {6, heads, n}, gaps),
                .positions = memory.input(positions, {6}),
                .inv_freq = memory.input(inv_freq, {n / 2}),
                .attention_factor = factor,
                .interleaved = interleaved};
            return KernelCall{.run = [args](const KernelTable& t, Queue& q) { t.rope(q, args); }};
          },
      .tolerance = 1e-6};
}

KernelCase silu_mul_case(int64_t tokens, int64_t n, int alias) {
  return {
      .name = "silu_mul/t" + std::to_string(tokens) + "_n" + std::to_string(n) + "_alias" +
              std::to_string(alias),
      .prepare = [=](CaseMemory& memory) {
        std::vector<float> gate = memory.normals(tokens * n, 3.0F);
        if (n > 3) {
          gate[0] = 200.0F;
          gate[1] = -200.0F;  // exp overflows, silu must not
          gate[2] = 0.0F;
        }
        const std::vector<float> up = memory.normals(tokens * n);
        SiluMulArgs args;
        if (alias == 0) {
          args = {memory.input(gate, {tokens, n}, {.rows = 2}),
                  memory.input(up, {tokens, n}, {.rows = 3}),
                  memory.output(DType::kF32, {tokens, n}, {.rows = 1})};
        } else {
          const Tensor out = memory.in_out(alias == 1 ? gate : up, {tokens, n});
          args.out = out;
          args.gate = alias == 1 ? ConstTensor(out) : memory.input(gate, {tokens, n});
          args.up = alias == 2 ? ConstTensor(out) : memory.input(up, {tokens, n});
        }
        return KernelCall{.run = [args](const KernelTable& t, Queue& q) { t.silu_mul(q, args); }};
      }};
}

KernelCase add_case(int64_t tokens, int64_t n) {
  return {
      .name = "add/t" + std::to_string(tokens) + "_n" + std::to_string(n),
      .prepare =
          [=](CaseMemory& memory) {
            const AddArgs args{
                .x = memory.normal_input({tokens, n}, {.rows = 2}),
                .out = memory.in_out(memory.normals(tokens * n), {tokens, n}, {.rows = 3})};
            return KernelCall{.run = [args](const KernelTable& t, Queue& q) { t.add(q, args); }};
          },
      .tolerance = 0.0};
}

KernelCase gather_rows_case(std::vector<int32_t> rows, int64_t n) {
  return {.name = "gather_rows/c" + std::to_string(rows.size()) + "_n" + std::to_string(n),
          .prepare =
              [=](CaseMemory& memory) {
                const auto count = static_cast<int64_t>(rows.size());
                const GatherRowsArgs args{.x = memory.normal_input({6, n}, {.rows = 2}),
                                          .rows = memory.input(rows, {count}),
                                          .out = memory.output(DType::kF32, {count, n})};
                return KernelCall{
                    .run = [args](const KernelTable& t, Queue& q) { t.gather_rows(q, args); }};
              },
          .tolerance = 0.0};
}

// Five rows: random, all equal (lowest wins), largest twice, a NaN, all -inf.
KernelCase argmax_case(int64_t vocab, int64_t gap) {
  return {.name = "argmax/v" + std::to_string(vocab) + "_gap" + std::to_string(gap),
          .prepare = [=](CaseMemory& memory) {
            std::vector<float> logits = memory.normals(5 * vocab);
            const auto row = [&](int64_t r) { return logits.data() + r * vocab; };
            std::fill(row(1), row(1) + vocab, -3.0F);
            row(2)[vocab - 1] = row(2)[vocab / 2] = 100.0F;
            row(3)[vocab - 1] = std::numeric_limits<float>::quiet_NaN();
            std::fill(row(4), row(4) + vocab, -INFINITY);
            const ArgmaxArgs args{.logits = memory.input(logits, {5, vocab}, {.rows = gap}),
                                  .out = memory.output(DType::kI32, {5})};
            return KernelCall{.run = [args](const KernelTable& t, Queue& q) { t.argmax(q, args); },
                              .bytes = static_cast<double>(20 * vocab)};
          }};
}

}  // namespace

KernelCases rope_cases() {
  KernelCases cases;
  for (const bool interleaved : {true, false}) {
    cases.push_back(rope_case(interleaved, 1, 2, 1.0F, {}));
    cases.push_back(rope_case(interleaved, 3, 8, 1.0F, {}));
    cases.push_back(rope_case(interleaved, 4, 64, 1.0F, {.rows = 0, .heads = 192}));
    cases.push_back(rope_case(interleaved, 2, 128, 1.2F, {.rows = 7, .heads = 5}));
  }
  return cases;
}

KernelCases elementwise_cases() {
  KernelCases cases;
  for (const int64_t n : {1, 16, 77, 1000}) {
    for (const int alias : {0, 1, 2}) cases.push_back(silu_mul_case(3, n, alias));
    cases.push_back(add_case(3, n));
    cases.push_back(gather_rows_case({5, 0, 3, 3}, n));
  }
  cases.push_back(gather_rows_case({}, 16));
  return cases;
}

KernelCases argmax_cases() {
  return {argmax_case(2, 0), argmax_case(17, 3), argmax_case(1000, 0), argmax_case(154880, 0)};
}

}  // namespace baton
