#include "device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>

#include "device/cpu/host_limits.h"
#include "device/cuda/cuda_queue.h"

namespace baton {
namespace {

constexpr size_t kPage = 4096;
constexpr int kComputeMajor = 9;  // kernels are built for sm_90a alone: no other chip runs them
constexpr int kComputeMinor = 0;

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, std::string description)
      : index_(index),
        name_("cuda:" + std::to_string(index)),
        description_(std::move(description)) {}

  std::string_view name() const override { return name_; }
  std::string description() const override { return description_; }
  bool host_addressable() const override { return false; }

  DeviceMemory memory() const override {
    DeviceMemory memory;
    if (cudaSetDevice(index_) != cudaSuccess ||
        cudaMemGetInfo(&memory.available_bytes, &memory.total_bytes) != cudaSuccess) {
      return {};
    }
    return memory;
  }

  // cudaMalloc promises 256 bytes of alignment, the contract 4,096: one page more, and the
  // first border inside. Planned arenas make the page negligible.
  Result<Buffer> allocate(size_t bytes) override {
    void* base = nullptr;
    cudaError_t error = cudaSetDevice(index_);
    if (error == cudaSuccess) error = cudaMalloc(&base, bytes + kPage);
    if (error != cudaSuccess) return allocation_failure(bytes, error, "cudaMalloc");
    void* aligned =
        reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(base) + kPage - 1) / kPage * kPage);
    return Buffer(aligned, bytes, [base, index = index_](void*) {
      cudaSetDevice(index);
      cudaFree(base);
    });
  }

  Result<Buffer> allocate_host(size_t bytes) override {
    void* data = nullptr;
    cudaError_t error = cudaSetDevice(index_);
    const size_t rounded = (bytes + kPage) / kPage * kPage;
    if (error == cudaSuccess) error = cudaHostAlloc(&data, rounded, cudaHostAllocPortable);
    if (error != cudaSuccess) return allocation_failure(bytes, error, "cudaHostAlloc");
    return Buffer(data, bytes, [](void* p) { cudaFreeHost(p); });
  }

  Result<std::unique_ptr<Queue>> create_queue() override {
    cudaStream_t stream = nullptr;
    cudaError_t error = cudaSetDevice(index_);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) {
      cudaGetLastError();
      return internal_error(name_ + ": " + describe_cuda_error(error, "cudaStreamCreate"));
    }
    // Enough for the rows of a step; a machine with many devices has one such pool for each.
    constexpr int kMostThreads = 8;
    const int threads = std::min(host_threads(), kMostThreads);
    return std::unique_ptr<Queue>(std::make_unique<CudaQueue>(index_, stream, threads));
  }

 private:
  Error allocation_failure(size_t bytes, cudaError_t error, std::string_view call) const {
    cudaGetLastError();  // so that synchronize() does not report it a second time
    if (error != cudaErrorMemoryAllocation) {
      return internal_error(name_ + ": " + describe_cuda_error(error, call));
    }
    const DeviceMemory now = memory();
    return resource_exhausted(name_ + ": cannot allocate " + std::to_string(bytes) + " bytes by " +
                              std::string(call) +
                              ", device memory available: " + std::to_string(now.available_bytes) +
                              " of " + std::to_string(now.total_bytes));
  }

  int index_;
  std::string name_;
  std::string description_;
};

Error no_device(cudaError_t error) {
  cudaGetLastError();
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) {
    return {ErrorCode::kUnavailable, "device cuda: no NVIDIA driver on this machine"};
  }
  if (error == cudaErrorInsufficientDriver) {
    return {ErrorCode::kUnavailable,
            "device cuda: the NVIDIA driver supports CUDA " + std::to_string(driver / 1000) + "." +
                std::to_string(driver % 1000 / 10) + ", expected at least " +
                std::to_string(CUDART_VERSION / 1000) + ".0"};
  }
  return {ErrorCode::kUnavailable,
          "device cuda: " + describe_cuda_error(error, "cudaGetDeviceCount")};
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(int index) {
  // Kernels are loaded now, not at their first launch: that may be inside a graph capture, where
  // loading is not safe, or in a request. What the environment says wins.
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return no_device(error);
  }
  if (index < 0 || index >= count) {
    return invalid_argument("device cuda:" + std::to_string(index) + ": expected an index below " +
                            std::to_string(count) + ", the number of CUDA devices here");
  }
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error == cudaSuccess) error = cudaSetDevice(index);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return Error{ErrorCode::kUnavailable,
                 "device cuda:" + std::to_string(index) + ": " +
                     describe_cuda_error(error, "cudaSetDevice")};
  }
  if (properties.major != kComputeMajor || properties.minor != kComputeMinor) {
    return unsupported("device cuda:" + std::to_string(index) + ": " + properties.name +
                       " has compute capability " + std::to_string(properties.major) + "." +
                       std::to_string(properties.minor) +
                       ", expected 9.0 (Hopper): the kernels are built for sm_90a");
  }
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(index, properties.name));
}

}  // namespace baton
