// What this process may use of the machine: in a container or a systemd slice less than the
// machine has. A kernel that asks for more than its control group allows is killed, not refused,
// so plans must know the group's limits. Linux, control groups v1 and v2
// (docs.kernel.org/admin-guide/cgroup-v2.html, .../cgroup-v1/memory.html).
#pragma once

#include <filesystem>
#include <string>

#include "device/device.h"

namespace baton {

// The smallest of the machine's memory and the limits of the control groups around the process and
// of its address space.
// `available_bytes` counts pages that only mirror files as available: the system gives them up.
// `root` holds proc/ and sys/; another than "/" is for tests.
DeviceMemory host_memory(const std::filesystem::path& root = "/");

// Threads that can run at the same time: the cores this process may run on, and no more than its
// groups' CPU quota. At least 1.
int host_threads(const std::filesystem::path& root = "/");

}  // namespace baton
