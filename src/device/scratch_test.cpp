#include "device/scratch.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

void pass(Scratch& scratch) {
  scratch.take({3, 5});
  {
    const Scratch::Frame frame(scratch);
    scratch.take({1000});
  }
  scratch.take(DType::kI32, {10});
}

TEST(Scratch, PlanEqualsRun) {
  Scratch plan;
  pass(plan);
  std::vector<std::byte> memory(plan.peak_bytes());
  Scratch run(memory.data(), memory.size());
  pass(run);
  EXPECT_EQ(run.peak_bytes(), plan.peak_bytes());
}

TEST(Scratch, FramesGiveMemoryBack) {
  Scratch plan;
  const void* first = nullptr;
  {
    const Scratch::Frame frame(plan);
    first = plan.take({7}).data;
  }
  EXPECT_EQ(plan.take({9}).data, first);
}

TEST(ScratchDeathTest, MoreThanThePlanEndsTheProcess) {
  std::vector<std::byte> memory(512);
  Scratch scratch(memory.data(), memory.size());
  EXPECT_DEATH(scratch.take({1000}), "scratch plan exceeded");
}

}  // namespace
}  // namespace baton
