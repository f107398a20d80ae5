#include "device/device.h"

#include <gtest/gtest.h>

#include <cstring>

#include "device/cpu/cpu_device.h"

namespace baton {
namespace {

TEST(OpenDevice, RefusesNamesItDoesNotKnow) {
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cpu0", ""}) {
    const auto device = open_device(name, 1);
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(open_device("cpu", -1));
}

TEST(CpuDevice, AllocatesPageAlignedMemoryAndCopies) {
  const auto device = open_device("cpu", 2);
  ASSERT_TRUE(device);
  EXPECT_GT((*device)->memory().total_bytes, 0U);
  auto a = (*device)->allocate(100);
  auto b = (*device)->allocate_host(100);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a->data()) % 4096, 0U);
  auto queue = (*device)->create_queue();
  ASSERT_TRUE(queue);
  (*queue)->fill(a->data(), 7, 100);
  (*queue)->copy(b->data(), a->data(), 100);
  ASSERT_TRUE((*queue)->synchronize());
  EXPECT_EQ(std::memcmp(a->data(), b->data(), 100), 0);
  EXPECT_TRUE((*queue)->record()->done());
  EXPECT_EQ(cpu_queue(**queue).threads().threads(), 2);
}

TEST(Queue, CountsFallbacksPerOp) {
  CpuQueue queue(1);
  queue.count_fallback("moe");
  queue.count_fallback("moe");
  EXPECT_EQ(queue.fallbacks().at("moe"), 2);
}

}  // namespace
}  // namespace baton
