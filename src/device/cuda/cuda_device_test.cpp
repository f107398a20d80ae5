// Memory, copies, events and graphs of the CUDA device. Without a GPU only the opening error
// is checked; the rest reports SKIPPED.
#include "device/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

namespace baton {
namespace {

TEST(OpenCudaDevice, SaysWhatIsMissingWithoutADriver) {
  const auto device = open_cuda_device(0);
  if (device) GTEST_SKIP() << "a device is here: " << (*device)->description();
  EXPECT_TRUE(device.error().message.starts_with("device cuda")) << device.error().message;
  EXPECT_NE(device.error().code, ErrorCode::kInternal);
}

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto device = open_cuda_device(0);
    if (!device) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
    auto queue = device_->create_queue();
    ASSERT_TRUE(queue) << queue.error().message;
    queue_ = std::move(*queue);
  }

  Buffer device_memory(size_t bytes) {
    auto buffer = device_->allocate(bytes);
    EXPECT_TRUE(buffer);
    return std::move(*buffer);
  }
  Buffer host_memory(size_t bytes) {
    auto buffer = device_->allocate_host(bytes);
    EXPECT_TRUE(buffer);
    return std::move(*buffer);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
};

TEST_F(CudaDeviceTest, RefusesAnIndexBeyondTheLastDevice) {
  const auto device = open_cuda_device(1000);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(CudaDeviceTest, AllocatesPageAlignedMemoryAndReportsIt) {
  const DeviceMemory before = device_->memory();
  EXPECT_GT(before.total_bytes, size_t{1} << 30);
  const Buffer large = device_memory(size_t{256} << 20);
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{5000}}) {
    const Buffer buffer = device_memory(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0U);
    EXPECT_EQ(buffer.size(), bytes);
  }
  EXPECT_LE(device_->memory().available_bytes + (size_t{256} << 20), before.available_bytes);
}

TEST_F(CudaDeviceTest, AnImpossibleAllocationIsAnErrorAndLeavesTheQueueUsable) {
  const auto buffer = device_->allocate(size_t{1} << 50);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(queue_->synchronize());
}

TEST_F(CudaDeviceTest, CopiesInEveryDirectionAndFillsInOrder) {
  constexpr size_t kBytes = 1 << 20;
  Buffer from = host_memory(kBytes);
  Buffer to = host_memory(kBytes);
  const Buffer a = device_memory(kBytes);
  const Buffer b = device_memory(kBytes);
  for (size_t i = 0; i < kBytes; ++i) from.bytes()[i] = static_cast<std::byte>(i * 31 >> 3);
  queue_->fill(b.data(), 0xee, kBytes);
  queue_->copy(a.data(), from.data(), kBytes);
  queue_->copy(b.data(), a.data(), kBytes - 16);
  queue_->copy(to.data(), b.data(), kBytes);
  ASSERT_TRUE(queue_->synchronize());
  EXPECT_EQ(std::memcmp(from.data(), to.data(), kBytes - 16), 0);
  for (size_t i = kBytes - 16; i < kBytes; ++i) EXPECT_EQ(to.bytes()[i], std::byte{0xee});
}

TEST_F(CudaDeviceTest, AnEventIsDoneAfterTheWorkBeforeIt) {
  constexpr size_t kBytes = 64 << 20;
  const Buffer a = device_memory(kBytes);
  Buffer last = host_memory(1);
  last.bytes()[0] = std::byte{0};
  queue_->fill(a.data(), 5, kBytes);
  queue_->copy(last.data(), a.bytes() + kBytes - 1, 1);
  const std::unique_ptr<Event> event = queue_->record();
  ASSERT_TRUE(event->wait());
  EXPECT_TRUE(event->done());
  EXPECT_EQ(last.bytes()[0], std::byte{5});
}

TEST_F(CudaDeviceTest, AReplayedGraphDoesTheCapturedWorkOnCurrentContents) {
  constexpr size_t kBytes = 4096;
  Buffer host = host_memory(kBytes);
  const Buffer a = device_memory(kBytes);
  const Buffer b = device_memory(kBytes);
  queue_->fill(a.data(), 1, kBytes);
  queue_->fill(b.data(), 2, kBytes);
  ASSERT_TRUE(queue_->synchronize());

  ASSERT_TRUE(queue_->begin_capture());
  queue_->copy(b.data(), a.data(), kBytes / 2);
  auto graph = queue_->end_capture();
  ASSERT_TRUE(graph) << graph.error().message;
  queue_->copy(host.data(), b.data(), kBytes);
  ASSERT_TRUE(queue_->synchronize());
  EXPECT_EQ(host.bytes()[0], std::byte{2});  // captured work has not run

  for (const uint8_t value : {uint8_t{7}, uint8_t{9}}) {
    queue_->fill(a.data(), value, kBytes);
    queue_->replay(**graph);
    queue_->copy(host.data(), b.data(), kBytes);
    ASSERT_TRUE(queue_->synchronize());
    EXPECT_EQ(host.bytes()[0], std::byte{value});
    EXPECT_EQ(host.bytes()[kBytes - 1], std::byte{2});
  }
}

TEST_F(CudaDeviceTest, AQueueWorksOnAnotherThreadThanTheOneThatMadeIt) {
  Buffer host = host_memory(16);
  const Buffer a = device_memory(16);
  bool fine = false;
  std::thread([&] {
    queue_->fill(a.data(), 3, 16);
    queue_->copy(host.data(), a.data(), 16);
    fine = queue_->synchronize().has_value();
  }).join();
  EXPECT_TRUE(fine);
  EXPECT_EQ(host.bytes()[15], std::byte{3});
}

TEST_F(CudaDeviceTest, ABadCopyIsReportedOnceBySynchronize) {
  const Buffer a = device_memory(16);
  queue_->copy(a.data(), nullptr, 16);
  const Status status = queue_->synchronize();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("cudaMemcpyAsync"), std::string::npos);
  EXPECT_TRUE(queue_->synchronize());
}

}  // namespace
}  // namespace baton
