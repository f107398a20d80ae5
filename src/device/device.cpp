#include "device/device.h"

#include <charconv>
#include <utility>

#include "base/log.h"
#include "device/cpu/cpu_device.h"
#include "device/cuda/cuda_device.h"

namespace baton {

Buffer::Buffer(void* data, size_t bytes, Release release)
    : data_(data), size_(bytes), release_(std::move(release)) {}

Buffer::~Buffer() {
  if (data_ != nullptr && release_) release_(data_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      release_(std::move(other.release_)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(release_, other.release_);
  return *this;
}

void Queue::count_fallback(std::string_view op) {
  const auto found = fallbacks_.find(op);
  if (found != fallbacks_.end()) {
    ++found->second;
    return;
  }
  fallbacks_.emplace(op, 1);
  log_warning("kernel fallback: " + std::string(op) + " runs on the reference composition");
}

Result<std::unique_ptr<Device>> open_device(std::string_view name, int cpu_threads) {
  if (name == "cpu") return open_cpu_device(cpu_threads);
  if (name == "cuda") return open_cuda_device(0);
  if (name.starts_with("cuda:")) {
    int index = -1;
    const std::string_view digits = name.substr(5);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size()) {
      return open_cuda_device(index);
    }
  }
  return invalid_argument("device: expected cpu, cuda or cuda:N, got '" + std::string(name) + "'");
}

}  // namespace baton
