// What the CUDA table promises beyond single values (kernels_test compares those with the
// reference): replayed graphs give the bits of eager runs, a token alone has the bits it has
// in a batch although other kernels run for it, and real model sizes fit. Without a GPU
// everything reports SKIPPED.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "kernels/cases/cached_context.h"
#include "kernels/cases/cases.h"
#include "kernels/tables.h"

namespace baton {
namespace {

bool same_bits(const CaseOutput& a, const CaseOutput& b) {
  return a.integers == b.integers && a.floats.size() == b.floats.size() &&
         (a.floats.empty() ||
          std::memcmp(a.floats.data(), b.floats.data(), a.floats.size() * sizeof(float)) == 0);
}

class CudaConformance : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Device>> device = open_device("cuda", 0);
    if (!device) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
    queue_ = *device_->create_queue();
    memory_ = std::make_unique<CaseMemory>(*device_, *queue_, 17);
  }

  // Outputs 0 and 1 of memory_: the batch and its tokens one by one.
  void expect_first_two_outputs_equal(std::string_view what) {
    const CaseResult result = memory_->read();
    ASSERT_EQ(result.outputs.size(), 2U);
    EXPECT_TRUE(result.guards_intact) << what;
    EXPECT_TRUE(same_bits(result.outputs[0], result.outputs[1])) << what;
    memory_ = std::make_unique<CaseMemory>(*device_, *queue_, 18);
  }

  const KernelTable& table_ = *cuda_kernels();
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<CaseMemory> memory_;
};

ConstTensor part(const ConstTensor& t, int64_t first, int64_t count) {
  return rows(
      Tensor{{const_cast<void*>(t.data), t.dtype, t.rank, t.dims, t.strides}}, first, count);
}

BatchLayout part(const BatchLayout& batch, int64_t first, int64_t count) {
  return {.positions = part(batch.positions, first, count),
          .sequence_of = part(batch.sequence_of, first, count),
          .block_table = batch.block_table,
          .max_context = batch.max_context};
}

TEST_F(CudaConformance, EveryCaseReplayedFromAGraphHasTheBitsOfTheEagerRun) {
  for (const KernelCase& kernel_case : all_kernel_cases()) {
    const CaseResult eager = run_case(table_, *device_, *queue_, kernel_case);
    CaseMemory memory(*device_, *queue_, std::hash<std::string>{}(kernel_case.name));
    const KernelCall call = kernel_case.prepare(memory);
    ASSERT_TRUE(queue_->begin_capture());
    call.run(table_, *queue_);
    Result<std::unique_ptr<Graph>> graph = queue_->end_capture();
    ASSERT_TRUE(graph) << kernel_case.name << ": " << graph.error().message;
    queue_->replay(**graph);
    const CaseResult replayed = memory.read();
    EXPECT_TRUE(replayed.guards_intact) << kernel_case.name;
    ASSERT_EQ(replayed.outputs.size(), eager.outputs.size());
    for (size_t i = 0; i < eager.outputs.size(); ++i) {
      EXPECT_TRUE(same_bits(replayed.outputs[i], eager.outputs[i])) << kernel_case.name;
    }
  }
}

TEST_F(CudaConformance, ATokenAloneHasTheBitsItHasInABatchOfAMatmul) {
  for (const WeightForm form : {WeightForm::kF32,
                                WeightForm::kBF16,
                                WeightForm::kF16,
                                WeightForm::kFp8Block,
                                WeightForm::kNvfp4}) {
    const int64_t m = 21;
    const WeightView weight = memory_->weight(form, 75, 1040);
    const ConstTensor x = memory_->normal_input({m, 1040}, {.rows = 1});
    const Tensor batch = memory_->output(DType::kF32, {m, 75});
    const Tensor alone = memory_->output(DType::kF32, {m, 75});
    table_.matmul(*queue_, {.x = x, .weight = weight, .bias = {}, .out = batch});
    for (int64_t i = 0; i < m; ++i) {
      table_.matmul(*queue_,
                    {.x = part(x, i, 1), .weight = weight, .bias = {}, .out = rows(alone, i, 1)});
    }
    expect_first_two_outputs_equal(weight_form_name(form));
  }
}

TEST_F(CudaConformance, ATokenAloneHasTheBitsItHasInABatchOfExperts) {
  constexpr int64_t kTokens = 60;
  constexpr int64_t kExperts = 5;
  for (const WeightForm form : {WeightForm::kF32,
                                WeightForm::kBF16,
                                WeightForm::kF16,
                                WeightForm::kFp8Block,
                                WeightForm::kNvfp4}) {
    std::vector<WeightView> matrices;
    for (int64_t e = 0; e < kExperts; ++e) {
      matrices.push_back(memory_->weight(form, 48, 64));
      matrices.push_back(memory_->weight(form, 48, 64));
      matrices.push_back(memory_->weight(form, 64, 48));
    }
    std::vector<int32_t> chosen;
    for (int64_t t = 0; t < kTokens; ++t) {
      const auto first = static_cast<int32_t>(memory_->uniform(0, kExperts - 2));
      chosen.push_back(first);
      chosen.push_back(static_cast<int32_t>(memory_->uniform(first + 1, kExperts - 1)));
    }
    MoeArgs args{.x = memory_->normal_input({kTokens, 64}),
                 .experts = memory_->input(chosen, {kTokens, 2}),
                 .weights = memory_->normal_input({kTokens, 2}),
                 .matrices = static_cast<const WeightView*>(
                     memory_->upload(matrices.data(), matrices.size() * sizeof(WeightView))),
                 .expert_count = kExperts,
                 .intermediate = 48,
                 .workspace = memory_->workspace({3 * kTokens * 2, 64}),
                 .out = memory_->output(DType::kF32, {kTokens, 64})};
    table_.moe(*queue_, args);
    const Tensor alone = memory_->output(DType::kF32, {kTokens, 64});
    for (int64_t i = 0; i < kTokens; ++i) {
      MoeArgs one = args;
      one.x = part(args.x, i, 1);
      one.experts = part(args.experts, i, 1);
      one.weights = part(args.weights, i, 1);
      one.out = rows(alone, i, 1);
      table_.moe(*queue_, one);
    }
    expect_first_two_outputs_equal(weight_form_name(form));
  }
}

TEST_F(CudaConformance, ATokenAloneHasTheBitsItHasInABatchOfAttention) {
  const std::vector<SequenceShape> sequences = {
      {.context = 90, .fresh = 40}, {.context = 5, .fresh = 5}, {.context = 200, .fresh = 3}};
  for (const LatentRowFormat format : {LatentRowFormat::kF32,
                                       LatentRowFormat::kBF16,
                                       LatentRowFormat::kFp8,
                                       LatentRowFormat::kNvfp4}) {
    const CachedContext context = make_context(*memory_, sequences);
    const LatentCache cache = filled_latent_cache(
        *memory_, context, sequences, {.format = format, .latent = 64, .rope = 16});
    // The filled cache is an input-output of the memory; a second memory keeps outputs apart.
    CaseMemory outputs(*device_, *queue_, 19);
    const int64_t tokens = context.batch->tokens();
    const ConstTensor q_latent = memory_->normal_input({tokens, 6, 64});
    const ConstTensor q_rope = memory_->normal_input({tokens, 6, 16});
    const Tensor batch = outputs.output(DType::kF32, {tokens, 6, 64});
    const Tensor alone = outputs.output(DType::kF32, {tokens, 6, 64});
    const auto attend = [&](int64_t first, int64_t count, const Tensor& out) {
      table_.mla_attention(*queue_,
                           {.q_latent = part(q_latent, first, count),
                            .q_rope = part(q_rope, first, count),
                            .batch = part(*context.batch, first, count),
                            .cache = cache,
                            .selection = {},
                            .scale = 0.2F,
                            .out = out});
    };
    attend(0, tokens, batch);
    for (int64_t i = 0; i < tokens; ++i) attend(i, 1, rows(alone, i, 1));
    const CaseResult result = outputs.read();
    EXPECT_TRUE(result.guards_intact);
    EXPECT_TRUE(same_bits(result.outputs[0], result.outputs[1])) << static_cast<int>(format);
  }
}

// GLM-5 geometry, larger than the shared cases: 512 + 64 rows, selections of 2,048, an indexer
// of 32 heads of 128, 256 experts' worth of columns.
TEST_F(CudaConformance, RealModelSizesMatchTheReference) {
  const std::vector<SequenceShape> sequences = {{.context = 2300, .fresh = 2}};
  std::vector<KernelCase> cases;
  for (const LatentRowFormat format :
       {LatentRowFormat::kBF16, LatentRowFormat::kFp8, LatentRowFormat::kNvfp4}) {
    cases.push_back(mla_attention_case({.row = {.format = format, .latent = 512, .rope = 64},
                                        .heads = 16,
                                        .sequences = sequences,
                                        .top_k = 2048}));
  }
  cases.push_back(index_scores_case(
      {.page = {.format = IndexKeyFormat::kFp8, .dim = 128}, .heads = 32, .sequences = sequences}));
  cases.push_back(select_top_k_case(
      {.scores = "normal", .sequences = {{.context = 40000, .fresh = 3}}, .top_k = 2048}));
  cases.push_back(select_top_k_case(
      {.scores = "ties", .sequences = {{.context = 40000, .fresh = 3}}, .top_k = 2048}));
  cases.push_back(matmul_case({.form = WeightForm::kFp8Block, .m = 3, .n = 576, .k = 6144}));
  const std::unique_ptr<Device> host = *open_device("cpu", 1);
  const std::unique_ptr<Queue> host_queue = *host->create_queue();
  for (const KernelCase& kernel_case : cases) {
    const CaseResult got = run_case(table_, *device_, *queue_, kernel_case);
    const CaseResult expected = run_case(reference_kernels(), *host, *host_queue, kernel_case);
    EXPECT_TRUE(got.guards_intact) << kernel_case.name;
    for (size_t i = 0; i < got.outputs.size(); ++i) {
      EXPECT_EQ(got.outputs[i].integers, expected.outputs[i].integers) << kernel_case.name;
      EXPECT_LE(relative_distance(got.outputs[i].floats, expected.outputs[i].floats), 5e-6)
          << kernel_case.name;
    }
  }
}

}  // namespace
}  // namespace baton
