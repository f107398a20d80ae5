#include "kernels/tables.h"

#include <string>
#include <vector>

#include "kernels/cpu/levels.h"

namespace baton {
namespace {

// Best first. Planning kernels compute nothing, so they cannot be asked for by name.
std::vector<const KernelTable*> tables_of(const Device& device) {
  if (device.name() == "cpu") {
    std::vector<const KernelTable*> tables = cpu_levels();
    tables.push_back(&reference_kernels());
    return tables;
  }
  if (device.name().starts_with("cuda") && cuda_kernels() != nullptr) return {cuda_kernels()};
  return {};
}

}  // namespace

Result<const KernelTable*> table_for(const Device& device, std::string_view name) {
  const std::vector<const KernelTable*> tables = tables_of(device);
  std::string known = "auto";
  for (const KernelTable* table : tables) {
    if (name == "auto" || name == table->name) return table;
    known += ", " + std::string(table->name);
  }
  const std::string where = "kernels of device " + std::string(device.name()) + ": ";
  if (tables.empty()) return unsupported(where + "none in this build");
  return invalid_argument(where + "expected one of " + known + ", got '" + std::string(name) + "'");
}

}  // namespace baton
