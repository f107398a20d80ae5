#include "device/cpu/call_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace baton {
namespace {

TEST(CallMemory, PiecesOfACallDoNotOverlapWhileItGrows) {
  CallMemory memory;
  const CallMemory::Frame frame(memory);
  uint8_t* pieces[20];
  for (int i = 0; i < 20; ++i) {
    pieces[i] = static_cast<uint8_t*>(memory.take(1000));
    std::memset(pieces[i], i, 1000);
  }
  for (int i = 0; i < 20; ++i) {
    for (int j = 0; j < 1000; ++j) ASSERT_EQ(pieces[i][j], i);
  }
}

TEST(CallMemory, TheSecondCallOfASizeGetsTheFirstOnesMemory) {
  CallMemory memory;
  void* first = nullptr;
  for (int call = 0; call < 3; ++call) {
    const CallMemory::Frame frame(memory);
    memory.take(100);
    void* piece = memory.take(70'000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0U);
    if (call == 1) first = piece;
    if (call == 2) {
      EXPECT_EQ(piece, first);
    }
  }
}

TEST(CallMemory, AnInnerFrameLeavesWhatTheOuterOneTook) {
  CallMemory memory;
  const CallMemory::Frame outer(memory);
  auto* kept = static_cast<uint8_t*>(memory.take(500));
  std::memset(kept, 7, 500);
  for (int call = 0; call < 2; ++call) {
    const CallMemory::Frame inner(memory);
    std::memset(memory.take(5000), 9, 5000);
  }
  for (int i = 0; i < 500; ++i) ASSERT_EQ(kept[i], 7);
}

TEST(CallMemory, ServesStandardContainers) {
  CallMemory memory;
  const CallMemory::Frame frame(memory);
  std::pmr::vector<int> values(&memory);
  for (int i = 0; i < 1000; ++i) values.push_back(i);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace baton
