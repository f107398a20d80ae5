// What a decode step allocates: nothing in the kernels and the model once the largest call has been
// seen, and in the engine around them the tokens of a delivery.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <new>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "engine/engine.h"
#include "kernels/tables.h"
#include "model/model.h"

namespace {

std::atomic<int64_t> allocations{0};

void* counted(size_t bytes, size_t alignment) {
  ++allocations;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, bytes) != 0) std::abort();
  return data;
}

}  // namespace

// The one way kernels could get memory past operator new.
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return counted(bytes, alignment);
}

void* operator new(size_t bytes) {
  return counted(bytes, 16);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* data) noexcept {
  std::free(data);
}
void operator delete(void* data, size_t) noexcept {
  std::free(data);
}
void operator delete(void* data, std::align_val_t) noexcept {
  std::free(data);
}
void operator delete(void* data, size_t, std::align_val_t) noexcept {
  std::free(data);
}

namespace baton {
namespace {

class Allocations : public testing::TestWithParam<std::string> {};

// Steps of three sequences at growing positions, in memory of their own.
TEST_P(Allocations, ADecodeStepOfAWarmModelMakesNone) {
  const auto device = open_device("cpu", 2).value();
  const auto queue = device->create_queue().value();
  const auto loaded = load_model("testdata/" + GetParam(), *device, {});
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Model& model = **loaded;
  constexpr int32_t kBlocks = 4;
  constexpr int32_t kContext = kBlocks * kBlockTokens;
  constexpr int64_t kBatch = 3;
  std::vector<int32_t> positions(kBatch), tokens(kBatch, 3), sequences{0, 1, 2};
  std::vector<int32_t> table;
  for (int32_t i = 0; i < kBatch * kBlocks; ++i) table.push_back(i);
  const auto ints = [](const std::vector<int32_t>& values, std::initializer_list<int64_t> dims) {
    return make_tensor(static_cast<const void*>(values.data()), DType::kI32, dims);
  };
  const BatchLayout batch{.positions = ints(positions, {kBatch}),
                          .sequence_of = ints(sequences, {kBatch}),
                          .block_table = ints(table, {kBatch, kBlocks}),
                          .max_context = kContext};
  std::vector<uint8_t> pool(
      static_cast<size_t>(kBatch * kBlocks * model.block_layout().stride_bytes));
  std::vector<float> logits(static_cast<size_t>(kBatch * model.config().vocab_size));
  const auto forward = [&](const KernelTable& kernels, Scratch& scratch) {
    ForwardContext context{
        .queue = *queue,
        .kernels = kernels,
        .scratch = scratch,
        .batch = batch,
        .token_ids = ints(tokens, {kBatch}),
        .sampled_rows = ints(sequences, {kBatch}),
        .kv_blocks = pool.data(),
        .logits = make_tensor(logits.data(), DType::kF32, {kBatch, model.config().vocab_size})};
    model.forward(context);
  };
  Scratch plan;
  forward(planning_kernels(), plan);
  std::vector<std::byte> scratch_memory(plan.peak_bytes() + 256);
  const auto step = [&](int32_t position) {
    for (int32_t& p : positions) p = position;
    Scratch scratch(scratch_memory.data(), scratch_memory.size());
    forward(cpu_kernels(), scratch);
  };
  step(kContext - 1);
  const int64_t before = allocations;
  for (int32_t position = 0; position < kContext; position += 7) step(position);
  EXPECT_EQ(allocations - before, 0);
  EXPECT_TRUE(queue->fallbacks().empty());
}

int64_t allocations_of(Engine& engine, RequestId id, int32_t max_tokens) {
  std::promise<void> done;
  const int64_t before = allocations;
  Request request;
  request.id = id;
  request.prompt = {1, 2, 3};
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0.0F;
  request.sampling.ignore_eos = true;
  request.deliver = [&](StreamUpdate&& update) {
    if (update.finish) done.set_value();
  };
  const Status submitted = engine.submit(std::move(request));
  EXPECT_TRUE(submitted.has_value());
  done.get_future().wait();
  return allocations - before;
}

// The list of tokens that a delivery hands over, and now and then room for a growing sequence.
TEST(EngineAllocations, AreOnePerDeliveredToken) {
  auto device = open_device("cpu", 2).value();
  auto model = load_model("testdata/glm-dsa-list", *device, {}).value();
  const auto engine =
      Engine::create(std::move(model), std::move(device), cpu_kernels(), EngineOptions{}).value();
  allocations_of(*engine, 1, 300);
  const int64_t few = allocations_of(*engine, 2, 20);
  const int64_t many = allocations_of(*engine, 3, 220);
  const double per_token = static_cast<double>(many - few) / 200.0;
  RecordProperty("per_token", std::to_string(per_token));
  EXPECT_LE(per_token, 1.5);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         Allocations,
                         testing::Values("glm-dsa-list", "deepseek-v3-yarn", "qwen3-moe"),
                         [](const testing::TestParamInfo<std::string>& tested) {
                           std::string name = tested.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace baton
