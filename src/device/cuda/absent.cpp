#include "device/cuda/cuda_device.h"

namespace baton {

Result<std::unique_ptr<Device>> open_cuda_device(int) {
  return unsupported("device cuda: this binary was built without CUDA (cmake --preset cuda)");
}

}  // namespace baton
