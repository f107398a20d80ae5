#include "device/cpu/cpu_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "base/check.h"
#include "device/cpu/host_limits.h"

namespace baton {
namespace {

constexpr size_t kPage = 4096;

class DoneEvent final : public Event {
 public:
  bool done() const override { return true; }
  Status wait() override { return {}; }
};

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : threads_(threads) {}

  std::string_view name() const override { return "cpu"; }
  std::string description() const override {
    return processor_name() + ", " + std::to_string(threads_) + " threads";
  }
  DeviceMemory memory() const override { return host_memory(); }
  bool host_addressable() const override { return true; }

  Result<Buffer> allocate(size_t bytes) override {
    const size_t rounded = std::max((bytes + kPage - 1) / kPage * kPage, kPage);
    void* data = std::aligned_alloc(kPage, rounded);
    if (data == nullptr) {
      return resource_exhausted("cpu: cannot allocate " + std::to_string(bytes) + " bytes");
    }
    return Buffer(data, bytes, [](void* p) { std::free(p); });
  }
  Result<Buffer> allocate_host(size_t bytes) override { return allocate(bytes); }
  Result<std::unique_ptr<Queue>> create_queue() override {
    return std::unique_ptr<Queue>(std::make_unique<CpuQueue>(threads_));
  }

 private:
  int threads_;
};

}  // namespace

void CpuQueue::copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}
void CpuQueue::fill(void* to, uint8_t value, size_t bytes) {
  std::memset(to, value, bytes);
}
std::unique_ptr<Event> CpuQueue::record() {
  return std::make_unique<DoneEvent>();
}
Status CpuQueue::begin_capture() {
  return unsupported("cpu: graphs are not supported");
}
Result<std::unique_ptr<Graph>> CpuQueue::end_capture() {
  return unsupported("cpu: graphs are not supported");
}
void CpuQueue::replay(const Graph&) {
  BATON_CHECK(false, "cpu queues have no graphs");
}

CpuQueue& cpu_queue(Queue& queue) {
  auto* cpu = dynamic_cast<CpuQueue*>(&queue);
  BATON_CHECK(cpu != nullptr, "a CPU kernel was given another device's queue");
  return *cpu;
}

Result<std::unique_ptr<Device>> open_cpu_device(int threads) {
  if (threads < 0 || threads > 1024) {
    return invalid_argument("cpu threads: expected 0..1024, got " + std::to_string(threads));
  }
  if (threads == 0) threads = host_threads();
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(threads));
}

}  // namespace baton
