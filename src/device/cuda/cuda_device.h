// CUDA as a device. Built from cuda_device.cpp with the CUDA toolkit, or from absent.cpp,
// whose open_cuda_device() says how to get it: callers need no #if.
#pragma once

#include <memory>

#include "device/device.h"

namespace baton {

Result<std::unique_ptr<Device>> open_cuda_device(int index);

}  // namespace baton
