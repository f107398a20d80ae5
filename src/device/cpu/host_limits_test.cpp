#include "device/cpu/host_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace baton {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMiB = 1 << 20;

// A small copy of /proc and /sys: a machine of 64 GiB, 32 of them available.
class HostLimits : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "baton_host_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    write("proc/meminfo", "MemTotal:       67108864 kB\nMemAvailable:   33554432 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  fs::path root_;
};

TEST_F(HostLimits, WithoutGroupsAreTheMachines) {
  const DeviceMemory memory = host_memory(root_);
  EXPECT_EQ(memory.total_bytes, 65536 * kMiB);
  EXPECT_EQ(memory.available_bytes, 32768 * kMiB);
  EXPECT_GE(host_threads(root_), 1);
}

TEST_F(HostLimits, AGroupOfVersion2LeavesWhatOthersInItDoNotHold) {
  write("proc/self/cgroup", "0::/box\n");
  write("sys/fs/cgroup/box/memory.max", "4294967296\n");
  write("sys/fs/cgroup/box/memory.current", "3221225472\n");
  // 2 GiB of file pages can go, but 512 MiB of them are shared memory and stay.
  write("sys/fs/cgroup/box/memory.stat", "anon 1073741824\nfile 2147483648\nshmem 536870912\n");
  const DeviceMemory memory = host_memory(root_);
  EXPECT_EQ(memory.total_bytes, 4096 * kMiB);
  EXPECT_EQ(memory.available_bytes, (4096 - 1024 - 512) * kMiB);
}

TEST_F(HostLimits, TheNarrowestOfTheGroupsAroundHolds) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/memory.max", "1073741824\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  EXPECT_EQ(host_memory(root_).total_bytes, 1024 * kMiB);
  write("sys/fs/cgroup/outer/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/outer/inner/cpu.max", "100000 100000\n");
  EXPECT_EQ(host_threads(root_), 1);
}

TEST_F(HostLimits, InsideAContainerTheTopOfTheMountIsTheGroup) {
  write("proc/self/cgroup", "4:memory:/docker/4711\n3:cpu,cpuacct:/docker/4711\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/memory.stat", "total_cache 1073741824\ntotal_shmem 0\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const DeviceMemory memory = host_memory(root_);
  EXPECT_EQ(memory.total_bytes, 2048 * kMiB);
  EXPECT_EQ(memory.available_bytes, 2048 * kMiB);
  EXPECT_EQ(host_threads(root_), 1);
}

TEST_F(HostLimits, VersionOnesWordForNoLimitLimitsNothing) {
  write("proc/self/cgroup", "4:memory:/\n3:cpu:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(host_memory(root_).available_bytes, 32768 * kMiB);
  EXPECT_EQ(host_threads(root_), host_threads(root_ / "nowhere"));
}

TEST_F(HostLimits, AnExhaustedGroupHasNothingLeft) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1048576\n");
  write("sys/fs/cgroup/memory.current", "2097152\n");
  EXPECT_EQ(host_memory(root_).available_bytes, 0U);
}

TEST(HostLimitsOfThisMachine, AreThere) {
  const DeviceMemory memory = host_memory();
  EXPECT_GT(memory.available_bytes, 0U);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
  EXPECT_GE(host_threads(), 1);
}

}  // namespace
}  // namespace baton
