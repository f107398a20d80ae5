// The CUDA kernels, compiled as plain C++ and run thread by thread on the host, against the
// reference: their logic is checked wherever Baton is built. What hardware adds (races, launch
// limits) is for kernels_test and cuda_conformance_test on a GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cases/cases.h"
#include "kernels/cuda/ops.h"
#include "kernels/tables.h"

namespace baton {
namespace {

class EmulatedCuda : public testing::TestWithParam<KernelCase> {};

TEST_P(EmulatedCuda, MatchesTheReferenceAndStaysWithinItsOutputs) {
  const std::unique_ptr<Device> device = *open_device("cpu", 1);
  const std::unique_ptr<Queue> queue = *device->create_queue();
  const CaseResult got = run_case(cuda::table(), *device, *queue, GetParam());
  const CaseResult expected = run_case(reference_kernels(), *device, *queue, GetParam());
  EXPECT_TRUE(got.guards_intact) << "wrote outside its outputs";
  ASSERT_EQ(got.outputs.size(), expected.outputs.size());
  for (size_t i = 0; i < got.outputs.size(); ++i) {
    EXPECT_EQ(got.outputs[i].integers, expected.outputs[i].integers);
    EXPECT_LE(relative_distance(got.outputs[i].floats, expected.outputs[i].floats),
              GetParam().tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, EmulatedCuda, testing::ValuesIn(all_kernel_cases()), [](const auto& param_info) {
      std::string name = param_info.param.name;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

}  // namespace
}  // namespace baton
