#include "device/tensor.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

TEST(Tensor, ViewsShareMemoryAndKeepStrides) {
  std::vector<float> data(24);
  const Tensor t = make_tensor(data.data(), DType::kF32, {4, 6});
  EXPECT_TRUE(t.contiguous());
  const Tensor middle = columns(t, 2, 4);
  EXPECT_EQ(middle.as<float>(), data.data() + 2);
  EXPECT_FALSE(middle.contiguous());
  const Tensor heads = split_inner(middle, 2, 2);
  EXPECT_EQ(heads.rank, 3);
  EXPECT_EQ(heads.stride(0), 6);
  EXPECT_EQ(heads.stride(1), 2);
  const Tensor last = rows(t, 3, 1);
  EXPECT_EQ(last.as<float>(), data.data() + 18);
  EXPECT_EQ(describe(heads), "F32 [4, 2, 2]");
}

TEST(TensorDeathTest, ColumnsOutsideTheMatrixEndTheProcess) {
  std::vector<float> data(8);
  const Tensor t = make_tensor(data.data(), DType::kF32, {2, 4});
  EXPECT_DEATH(columns(t, 3, 2), "check failed");
}

}  // namespace
}  // namespace baton
