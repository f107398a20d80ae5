// Every table against the reference, over every case. A CUDA table without a device is skipped.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cases/cases.h"
#include "kernels/cpu/levels.h"
#include "kernels/tables.h"

namespace baton {
namespace {

struct TestedTable {
  const KernelTable* table;
  std::string device;
  // What the table's arithmetic allows; 0: it accumulates in f32, as the cases assume.
  double least_tolerance;
};

std::vector<TestedTable> tested_tables() {
  std::vector<TestedTable> tables = {{&reference_kernels(), "cpu", 0.0}};
  for (const KernelTable* table : cpu_levels()) {
    if (table != &reference_kernels()) tables.push_back({table, "cpu", 0.0});
  }
  if (cuda_kernels() != nullptr) tables.push_back({cuda_kernels(), "cuda", 0.0});
  return tables;
}

class EveryTable : public testing::TestWithParam<std::tuple<TestedTable, KernelCase>> {};

TEST_P(EveryTable, MatchesTheReferenceAndStaysWithinItsOutputs) {
  const auto& [tested, kernel_case] = GetParam();
  Result<std::unique_ptr<Device>> device = open_device(tested.device, 2);
  if (!device) GTEST_SKIP() << device.error().message;
  std::unique_ptr<Queue> queue = *(*device)->create_queue();
  std::unique_ptr<Device> host = *open_device("cpu", 1);
  std::unique_ptr<Queue> host_queue = *host->create_queue();

  const CaseResult got = run_case(*tested.table, **device, *queue, kernel_case);
  const CaseResult expected = run_case(reference_kernels(), *host, *host_queue, kernel_case);
  EXPECT_TRUE(got.guards_intact) << "wrote outside its outputs";
  ASSERT_EQ(got.outputs.size(), expected.outputs.size());
  for (size_t i = 0; i < got.outputs.size(); ++i) {
    EXPECT_EQ(got.outputs[i].integers, expected.outputs[i].integers);
    EXPECT_LE(relative_distance(got.outputs[i].floats, expected.outputs[i].floats),
              std::max(kernel_case.tolerance, tested.least_tolerance));
  }
}

std::string test_name(const testing::TestParamInfo<EveryTable::ParamType>& info) {
  std::string name =
      std::string(std::get<0>(info.param).table->name) + "_" + std::get<1>(info.param).name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Kernels,
                         EveryTable,
                         testing::Combine(testing::ValuesIn(tested_tables()),
                                          testing::ValuesIn(all_kernel_cases())),
                         test_name);

TEST(TableFor, AutoTakesTheBestTableOfTheProcessor) {
  const std::unique_ptr<Device> device = *open_device("cpu", 1);
  const Result<const KernelTable*> table = table_for(*device, "auto");
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(*table, &cpu_kernels());
}

TEST(TableFor, ANameForcesATable) {
  const std::unique_ptr<Device> device = *open_device("cpu", 1);
  EXPECT_EQ(*table_for(*device, "reference"), &reference_kernels());
  EXPECT_EQ(*table_for(*device, cpu_kernels().name), &cpu_kernels());
}

TEST(TableFor, AnUnknownNameListsWhatThereIs) {
  const std::unique_ptr<Device> device = *open_device("cpu", 1);
  const Result<const KernelTable*> table = table_for(*device, "fast");
  ASSERT_FALSE(table.has_value());
  EXPECT_NE(table.error().message.find("reference"), std::string::npos);
  EXPECT_NE(table.error().message.find("'fast'"), std::string::npos);
}

TEST(PlanningTable, HasEveryOpAndTouchesNothing) {
  const KernelTable& table = planning_kernels();
  const std::unique_ptr<Device> device = *open_device("cpu", 1);
  const std::unique_ptr<Queue> queue = *device->create_queue();
  // Addresses that would fault if they were read or written.
  Tensor nowhere = make_tensor(reinterpret_cast<void*>(64), DType::kF32, {4, 4});
  table.add(*queue, {.x = nowhere, .out = nowhere});
  table.argmax(*queue, {.logits = nowhere, .out = nowhere});
  EXPECT_NE(table.moe, nullptr);
  EXPECT_NE(table.index_select, nullptr);
}

}  // namespace
}  // namespace baton
