#include "device/cpu/host_limits.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

namespace baton {
namespace {

namespace fs = std::filesystem;

// The value after `key` in a file of "key value ..." lines; nothing when there is none.
std::optional<int64_t> value_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word && word == key && words >> value) return value;
  }
  return std::nullopt;
}

// The numbers a file begins with; "max" ends them, as does a missing file.
std::vector<int64_t> numbers_in(const fs::path& file) {
  std::ifstream in(file);
  std::vector<int64_t> numbers;
  for (int64_t number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

std::optional<int64_t> number_in(const fs::path& file) {
  const std::vector<int64_t> numbers = numbers_in(file);
  return numbers.empty() ? std::nullopt : std::optional(numbers.front());
}

// The process's group under `mount` and all groups around it. Inside a container the path that
// /proc names may not exist below the mount, whose top then is the container's own group.
std::vector<fs::path> groups_below(const fs::path& mount, const fs::path& group) {
  std::vector<fs::path> found{mount};
  fs::path at = mount;
  for (const fs::path& part : group.relative_path()) {
    at /= part;
    std::error_code ignored;
    if (fs::is_directory(at, ignored)) found.push_back(at);
  }
  return found;
}

// The groups of one v1 controller ("memory", "cpu"), or of v2 (""), as /proc/self/cgroup lists
// them: "4:cpu,cpuacct:/a/b".
std::vector<fs::path> groups_of(const fs::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string names = line.substr(first, second - first + 1);
    names.front() = names.back() = ',';
    if (names.find(',' + controller + ',') == std::string::npos) continue;
    const fs::path mounts = root / "sys/fs/cgroup";
    return groups_below(controller.empty() ? mounts : mounts / controller, line.substr(second + 1));
  }
  return {};
}

// Names of what a memory group says, by version.
struct MemoryFiles {
  const char* controller;
  const char* limit;
  const char* used;
  const char* file_pages;    // in memory.stat; of the group and those below it
  const char* shared_pages;  // counted among the file pages, but backed by nothing
};
constexpr MemoryFiles kMemoryV1{
    "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem"};
constexpr MemoryFiles kMemoryV2{"", "memory.max", "memory.current", "file", "shmem"};

void narrow(DeviceMemory& memory, const fs::path& group, const MemoryFiles& files) {
  const std::optional<int64_t> limit = number_in(group / files.limit);
  if (!limit || *limit < 0) return;
  const int64_t used = number_in(group / files.used).value_or(0);
  const int64_t reclaimable = value_of(group / "memory.stat", files.file_pages).value_or(0) -
                              value_of(group / "memory.stat", files.shared_pages).value_or(0);
  const int64_t kept = std::max<int64_t>(0, used - std::max<int64_t>(0, reclaimable));
  const auto available = static_cast<size_t>(std::max<int64_t>(0, *limit - kept));
  memory.total_bytes = std::min(memory.total_bytes, static_cast<size_t>(*limit));
  memory.available_bytes = std::min(memory.available_bytes, available);
}

// The limit of the address space (ulimit -v). Mapped files take of it, too, but are left out: who
// plans counts the weights.
void narrow_by_address_space(DeviceMemory& memory) {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  size_t used = 0;
  for (const char* line : {"VmData:", "VmStk:", "VmExe:", "VmLib:"}) {
    used += static_cast<size_t>(value_of("/proc/self/status", line).value_or(0)) * 1024;
  }
  const size_t all = limit.rlim_cur;
  memory.total_bytes = std::min(memory.total_bytes, all);
  memory.available_bytes = std::min(memory.available_bytes, all > used ? all - used : 0);
}

// Cores' worth of time per period, when there is a quota.
std::optional<double> quota(int64_t quota_us, int64_t period_us) {
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

int allowed_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::thread::hardware_concurrency());  // more cores than the set holds
}

}  // namespace

DeviceMemory host_memory(const fs::path& root) {
  const auto machine = [&](const char* key) {
    return static_cast<size_t>(value_of(root / "proc/meminfo", key).value_or(0)) * 1024;
  };
  DeviceMemory memory{machine("MemTotal:"), machine("MemAvailable:")};
  for (const MemoryFiles& files : {kMemoryV1, kMemoryV2}) {
    for (const fs::path& group : groups_of(root, files.controller)) narrow(memory, group, files);
  }
  narrow_by_address_space(memory);
  return memory;
}

int host_threads(const fs::path& root) {
  double cores = allowed_cores();
  const auto limit = [&](std::optional<double> most) {
    cores = std::min(cores, most.value_or(cores));
  };
  for (const fs::path& group : groups_of(root, "")) {
    const std::vector<int64_t> max = numbers_in(group / "cpu.max");
    if (max.size() == 2) limit(quota(max[0], max[1]));
  }
  for (const fs::path& group : groups_of(root, "cpu")) {
    limit(quota(number_in(group / "cpu.cfs_quota_us").value_or(-1),
                number_in(group / "cpu.cfs_period_us").value_or(-1)));
  }
  // Rounded down: a thread beyond the quota only makes the others wait for it.
  return std::max(1, static_cast<int>(cores));
}

}  // namespace baton
