#include <cmath>
#include <functional>
#include <limits>

#include "kernels/cases/cases.h"

namespace baton {

std::string_view weight_form_name(WeightForm form) {
  switch (form) {
    case WeightForm::kF32:
      return "f32";
    case WeightForm::kBF16:
      return "bf16";
    case WeightForm::kF16:
      return "f16";
    case WeightForm::kFp8Block:
      return "fp8";
    case WeightForm::kNvfp4:
      return "nvfp4";
  }
  return "";
}

CaseResult run_case(const KernelTable& table,
                    Device& device,
                    Queue& queue,
                    const KernelCase& kernel_case) {
  CaseMemory memory(device, queue, std::hash<std::string>{}(kernel_case.name));
  kernel_case.prepare(memory).run(table, queue);
  return memory.read();
}

double relative_distance(const std::vector<float>& got, const std::vector<float>& expected) {
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double error = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    if (got[i] == expected[i] && !std::isfinite(expected[i])) continue;
    if (!std::isfinite(got[i]) || !std::isfinite(expected[i])) {
      return std::numeric_limits<double>::infinity();
    }
    const double difference = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
    error += difference * difference;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  if (error == 0.0) return 0.0;
  return norm == 0.0 ? std::numeric_limits<double>::infinity() : std::sqrt(error / norm);
}

KernelCases all_kernel_cases() {
  KernelCases all;
  for (const auto& list : {embed_cases,
                           norm_cases,
                           matmul_cases,
                           head_matmul_cases,
                           rope_cases,
                           elementwise_cases,
                           store_cases,
                           mla_attention_cases,
                           gqa_attention_cases,
                           index_scores_cases,
                           select_top_k_cases,
                           index_select_cases,
                           route_cases,
                           moe_cases,
                           argmax_cases}) {
    for (KernelCase& kernel_case : list()) all.push_back(std::move(kernel_case));
  }
  return all;
}

}  // namespace baton
