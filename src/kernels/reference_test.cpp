// The reference against values worked out by hand: an oracle needs one of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cases/case_memory.h"
#include "kernels/tables.h"

namespace baton {
namespace {

class Reference : public testing::Test {
 protected:
  const KernelTable& table_ = reference_kernels();
  std::unique_ptr<Device> device_ = *open_device("cpu", 1);
  std::unique_ptr<Queue> queue_ = *device_->create_queue();
  CaseMemory memory_{*device_, *queue_, 3};

  // x weight^T with one row of x
  std::vector<float> product(const WeightView& weight, const std::vector<float>& x) {
    const Tensor out = memory_.output(DType::kF32, {1, weight.rows});
    table_.matmul(
        *queue_,
        {.x = memory_.input(x, {1, weight.columns}), .weight = weight, .bias = {}, .out = out});
    return {out.as<float>(), out.as<float>() + weight.rows};
  }
};

// 3 x 3 values in 2 x 2 blocks: the last block of each direction is half full.
TEST_F(Reference, Fp8BlocksAtTheEdgeUseTheirOwnScale) {
  const uint8_t one = 0x38;
  const std::vector<uint8_t> values(9, one);
  const std::vector<float> scales = {1.0F, 10.0F, 100.0F, 1000.0F};
  const WeightView weight{.data = values.data(),
                          .scales = scales.data(),
                          .rows = 3,
                          .columns = 3,
                          .block_rows = 2,
                          .block_columns = 2,
                          .form = WeightForm::kFp8Block};
  EXPECT_EQ(product(weight, {1.0F, 1.0F, 1.0F}), (std::vector<float>{12.0F, 12.0F, 1200.0F}));
}

TEST_F(Reference, Nvfp4KeepsTheEvenColumnInTheLowNibble) {
  std::vector<uint8_t> pairs(8, 0);
  pairs[0] = 0x72;                             // column 0: 1, column 1: 6
  pairs[1] = 0x0f;                             // column 2: -6
  const std::vector<uint8_t> scales = {0x40};  // 2
  const WeightView weight{.data = pairs.data(),
                          .scales = scales.data(),
                          .rows = 1,
                          .columns = 16,
                          .global_scale = 0.5F,
                          .form = WeightForm::kNvfp4};
  std::vector<float> x(16, 0.0F);
  x[0] = 1.0F;
  x[1] = 10.0F;
  x[2] = 100.0F;
  EXPECT_EQ(product(weight, x), std::vector<float>{1.0F + 60.0F - 600.0F});
}

// The bias decides who is chosen and must not reach the weights (models.md A.7).
TEST_F(Reference, RouterBiasChoosesButDoesNotWeigh) {
  const Tensor experts = memory_.output(DType::kI32, {1, 2});
  const Tensor weights = memory_.output(DType::kF32, {1, 2});
  table_.route(*queue_,
               {.logits = memory_.input(std::vector<float>{0, 2, 1, 0}, {1, 4}),
                .bias = memory_.input(std::vector<float>{5, 0, -5, 4}, {4}),
                .scoring = RouterScoring::kSigmoid,
                .group_score = GroupScore::kTopTwoSum,
                .groups = 1,
                .top_groups = 1,
                .normalize = true,
                .scaling_factor = 2.5F,
                .experts = experts,
                .weights = weights});
  EXPECT_EQ(experts.as<int32_t>()[0], 0);
  EXPECT_EQ(experts.as<int32_t>()[1], 3);
  EXPECT_FLOAT_EQ(weights.as<float>()[0], 1.25F);
  EXPECT_FLOAT_EQ(weights.as<float>()[1], 1.25F);
}

// A kept expert with a negative choice value still beats every masked one: masked is -inf, not
// zero.
TEST_F(Reference, MaskedExpertGroupsLoseToNegativeChoices) {
  const Tensor experts = memory_.output(DType::kI32, {1, 2});
  const Tensor weights = memory_.output(DType::kF32, {1, 2});
  table_.route(*queue_,
               {.logits = memory_.input(std::vector<float>(4, 0.0F), {1, 4}),
                .bias = memory_.input(std::vector<float>{-9, -9, -2, -3}, {4}),
                .scoring = RouterScoring::kSigmoid,
                .group_score = GroupScore::kTopTwoSum,
                .groups = 2,
                .top_groups = 1,
                .normalize = false,
                .scaling_factor = 1.0F,
                .experts = experts,
                .weights = weights});
  EXPECT_EQ(experts.as<int32_t>()[0], 2);
  EXPECT_EQ(experts.as<int32_t>()[1], 3);
}

TEST_F(Reference, ArgmaxTakesTheLowestOfEqualsAndRefusesNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor out = memory_.output(DType::kI32, {2});
  table_.argmax(
      *queue_,
      {.logits = memory_.input(std::vector<float>{1, 7, 7, 9, nan, 2}, {2, 3}), .out = out});
  EXPECT_EQ(out.as<int32_t>()[0], 1);
  EXPECT_EQ(out.as<int32_t>()[1], -1);
}

TEST_F(Reference, NormsFollowTheirFormulas) {
  const Tensor out = memory_.output(DType::kF32, {1, 2});
  const ConstTensor x = memory_.input(std::vector<float>{3.0F, 5.0F}, {1, 2});
  const ConstTensor weight = memory_.input(std::vector<float>{2.0F, 4.0F}, {2});
  const ConstTensor bias = memory_.input(std::vector<float>{0.5F, 0.25F}, {2});
  table_.rms_norm(*queue_, {.x = x, .weight = weight, .epsilon = 8.0F, .out = out});
  EXPECT_FLOAT_EQ(out.as<float>()[0], 6.0F / 5.0F);  // mean square 17, plus 8
  EXPECT_FLOAT_EQ(out.as<float>()[1], 4.0F);
  table_.layer_norm(*queue_, {.x = x, .weight = weight, .bias = bias, .epsilon = 3.0F, .out = out});
  EXPECT_FLOAT_EQ(out.as<float>()[0], -0.5F * 2.0F + 0.5F);  // variance 1, plus 3
  EXPECT_FLOAT_EQ(out.as<float>()[1], 0.5F * 4.0F + 0.25F);
}

}  // namespace
}  // namespace baton
