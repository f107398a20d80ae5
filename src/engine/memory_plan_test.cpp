#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/architectures/scripted.h"

namespace baton {
namespace {

// A device that only has a size.
class SizedDevice final : public Device {
 public:
  SizedDevice(size_t available, bool host) : available_(available), host_(host) {}
  std::string_view name() const override { return "sized"; }
  std::string description() const override { return "sized"; }
  DeviceMemory memory() const override { return {available_, available_}; }
  bool host_addressable() const override { return host_; }
  Result<Buffer> allocate(size_t) override { return resource_exhausted("none"); }
  Result<Buffer> allocate_host(size_t) override { return resource_exhausted("none"); }
  Result<std::unique_ptr<Queue>> create_queue() override { return unsupported("none"); }

 private:
  size_t available_;
  bool host_;
};

// Another model whose weights are files that are used in place.
class MappedModel final : public Model {
 public:
  MappedModel(const Model& inner, int64_t mapped) : inner_(inner), mapped_(mapped) {}
  const ModelConfig& config() const override { return inner_.config(); }
  const BlockLayout& block_layout() const override { return inner_.block_layout(); }
  void forward(ForwardContext& context) const override { inner_.forward(context); }
  int64_t weights_bytes() const override { return mapped_; }
  int64_t mapped_bytes() const override { return mapped_; }

 private:
  const Model& inner_;
  int64_t mapped_;
};

Result<EnginePlan> plan_for(size_t available,
                            const EngineOptions& options,
                            bool host = false,
                            size_t mapped = 0) {
  ScriptedOptions scripted;
  scripted.vocab_size = 1000;
  scripted.max_position_embeddings = 100000;  // 4,096 bytes per block of 64 tokens
  const auto scripted_model = make_scripted_model(scripted);
  const MappedModel model(*scripted_model, static_cast<int64_t>(mapped));
  auto cpu = open_device("cpu", 1).value();
  auto queue = cpu->create_queue().value();
  return plan_memory(model, SizedDevice(available, host), *queue, options);
}

constexpr size_t kMebi = 1U << 20;

TEST(MemoryPlan, TakesTheLargestContextThatFits) {
  const auto roomy = plan_for(64 * kMebi, {});
  ASSERT_TRUE(roomy) << roomy.error().message;
  EXPECT_EQ(roomy->memory.max_model_len, 100000);
  const auto tight = plan_for(4 * kMebi, {});
  ASSERT_TRUE(tight) << tight.error().message;
  const MemoryPlan& memory = tight->memory;
  EXPECT_LT(memory.max_model_len, 100000);
  EXPECT_EQ(memory.max_model_len % 64, 0);
  EXPECT_EQ(memory.max_model_len, memory.kv_blocks * 64);
  EXPECT_LE(memory.kv_bytes + memory.workspace_bytes, static_cast<int64_t>(4 * kMebi));
  // One block more would not fit.
  EngineOptions more;
  more.max_model_len = memory.max_model_len + 64;
  EXPECT_FALSE(plan_for(4 * kMebi, more));
}

TEST(MemoryPlan, SaysWhatWouldFitWhenAskedForTooMuch) {
  EngineOptions options;
  options.max_model_len = 100000;
  const auto plan = plan_for(4 * kMebi, options);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("max_model_len 100000 needs 6.1 MiB"));
  const std::string flag = "lower --max-model-len to at most ";
  const size_t at = plan.error().message.find(flag);
  ASSERT_NE(at, std::string::npos) << plan.error().message;
  options.max_model_len = std::stoi(plan.error().message.substr(at + flag.size()));
  EXPECT_TRUE(plan_for(4 * kMebi, options));
  options.max_model_len += 64;
  EXPECT_FALSE(plan_for(4 * kMebi, options));
}

TEST(MemoryPlan, BoundsHostMemoryByWhatCanBeInUse) {
  EngineOptions options;
  options.max_num_seqs = 4;
  options.max_model_len = 640;
  EXPECT_EQ(plan_for(1024 * kMebi, options, true)->memory.kv_blocks, 40);
  EXPECT_GT(plan_for(1024 * kMebi, options, false)->memory.kv_blocks, 100000);
  options.kv_cache_tokens = 6400;
  EXPECT_EQ(plan_for(1024 * kMebi, options, true)->memory.kv_blocks, 100);
  options.kv_cache_tokens = 0;
  options.kv_cache_memory_bytes = 4096 * 51;
  EXPECT_EQ(plan_for(1024 * kMebi, options, true)->memory.kv_blocks, 50);
}

TEST(MemoryPlan, LeavesRoomForWeightsThatAreMappedFiles) {
  const EngineOptions options;
  const auto without = plan_for(64 * kMebi, options);
  const auto with = plan_for(128 * kMebi, options, false, 64 * kMebi);
  ASSERT_TRUE(without && with);
  EXPECT_EQ(with->memory.kv_blocks, without->memory.kv_blocks);
  EXPECT_EQ(with->memory.weights_bytes, static_cast<int64_t>(64 * kMebi));
  EXPECT_FALSE(plan_for(64 * kMebi, options, false, 64 * kMebi));
}

TEST(MemoryPlan, CountsStagingWhereItIsInTheSameMemory) {
  const auto shared = plan_for(64 * kMebi, {}, true);
  ASSERT_TRUE(shared) << shared.error().message;
  const StepSizes& sizes = shared->sizes;
  // The host has inputs and token ids of its own, and reads the logits where they are.
  const size_t ids_bytes = static_cast<size_t>(sizes.max_logit_rows) * sizeof(int32_t);
  EXPECT_EQ(sizes.host_bytes, sizes.input_bytes + ids_bytes);
  EXPECT_EQ(static_cast<size_t>(shared->memory.workspace_bytes),
            sizes.scratch_bytes + 2 * sizes.input_bytes + sizes.logits_bytes + ids_bytes);
  EXPECT_EQ(plan_for(64 * kMebi, {}, false)->sizes.host_bytes, 0U);
}

TEST(MemoryPlan, CountsTheRowsOfDrafts) {
  EngineOptions options;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 100;
  options.max_model_len = 640;
  const StepSizes without = plan_for(64 * kMebi, options)->sizes;
  EXPECT_EQ(without.max_draft_rows, 0);
  EXPECT_EQ(without.max_logit_rows, 8 + kPromptLogprobRows);
  options.speculation = {.method = DraftMethod::kNgram, .num_speculative_tokens = 4};
  const StepSizes with = plan_for(64 * kMebi, options)->sizes;
  EXPECT_EQ(with.max_draft_rows, 32);
  EXPECT_EQ(with.max_logit_rows, 40 + kPromptLogprobRows);
  EXPECT_EQ(with.max_decode_tokens(), 40);
  EXPECT_EQ(with.logits_bytes - without.logits_bytes, 32U * (1000 + 1) * sizeof(float));
  EXPECT_GT(with.input_bytes, without.input_bytes);
  options.speculation.num_speculative_tokens = 40;
  EXPECT_EQ(plan_for(64 * kMebi, options)->sizes.max_draft_rows, 46);  // half of 100 - 8 tokens
}

TEST(MemoryPlan, RefusesOptionsThatCannotWork) {
  const auto message = [](auto set) {
    EngineOptions options;
    set(options);
    const auto plan = plan_for(64 * kMebi, options);
    return plan ? std::string("accepted") : plan.error().message;
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& o) { o.max_model_len = 100001; }), HasSubstr("at most 100000"));
  EXPECT_THAT(message([](auto& o) { o.max_num_seqs = 0; }), HasSubstr("max_num_seqs"));
  EXPECT_THAT(message([](auto& o) { o.max_num_batched_tokens = 10; }),
              HasSubstr("at least max_num_seqs"));
  EXPECT_THAT(message([](auto& o) { o.memory_utilization = 1.5; }),
              HasSubstr("memory_utilization"));
  EXPECT_THAT(message([](auto& o) { o.stream_interval = 0; }), HasSubstr("stream_interval"));
  EXPECT_THAT(message([](auto& o) { o.kv_cache_memory_bytes = int64_t{1} << 40; }),
              HasSubstr("--kv-cache-memory-bytes"));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(message([](auto& o) { o.kv_cache_memory_bytes = kMost; }),
              HasSubstr("--kv-cache-memory-bytes"));
  EXPECT_THAT(message([](auto& o) { o.kv_cache_tokens = kMost; }), HasSubstr("--kv-cache-tokens"));
  EXPECT_THAT(message([](auto& o) { o.speculation.method = DraftMethod::kNgram; }),
              HasSubstr("num_speculative_tokens"));
}

}  // namespace
}  // namespace baton
