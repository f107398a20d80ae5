#include "bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>

namespace baton {
namespace {

double percentile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::ceil(share * last))];
}

double per_second(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
}

void print_row(const std::string& name, const Json& row) {
  if (row.is_null()) return;
  std::printf("  %-24s", name.c_str());
  for (const char* column : {"mean", "p50", "p90", "p99", "max"}) {
    std::printf(" %10.2f", row[column].get<double>());
  }
  std::printf("\n");
}

}  // namespace

Json percentiles_ms(std::vector<double> seconds) {
  if (seconds.empty()) return nullptr;
  std::sort(seconds.begin(), seconds.end());
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {{"mean", 1e3 * sum / static_cast<double>(seconds.size())},
          {"p50", 1e3 * percentile(seconds, 0.50)},
          {"p90", 1e3 * percentile(seconds, 0.90)},
          {"p99", 1e3 * percentile(seconds, 0.99)},
          {"max", 1e3 * seconds.back()}};
}

Json bench_report(const Json& facts, const std::vector<RequestSample>& samples, double seconds) {
  std::vector<double> first, inter, per_token, total;
  int64_t prompt_tokens = 0, output_tokens = 0, failed = 0;
  for (const RequestSample& sample : samples) {
    if (sample.failed) {
      ++failed;
      continue;
    }
    first.push_back(sample.time_to_first_token);
    inter.insert(inter.end(), sample.inter_token.begin(), sample.inter_token.end());
    if (sample.output_tokens > 1) {
      per_token.push_back((sample.end_to_end - sample.time_to_first_token) /
                          static_cast<double>(sample.output_tokens - 1));
    }
    total.push_back(sample.end_to_end);
    prompt_tokens += sample.prompt_tokens;
    output_tokens += sample.output_tokens;
  }
  Json report = facts;
  report["requests"] = samples.size();
  report["failed"] = failed;
  report["seconds"] = seconds;
  report["prompt_tokens"] = prompt_tokens;
  report["output_tokens"] = output_tokens;
  report["requests_per_second"] =
      per_second(static_cast<int64_t>(samples.size()) - failed, seconds);
  report["output_tokens_per_second"] = per_second(output_tokens, seconds);
  report["total_tokens_per_second"] = per_second(prompt_tokens + output_tokens, seconds);
  report["ttft_ms"] = percentiles_ms(std::move(first));
  report["itl_ms"] = percentiles_ms(std::move(inter));
  report["tpot_ms"] = percentiles_ms(std::move(per_token));
  report["e2e_ms"] = percentiles_ms(std::move(total));
  return report;
}

Status print_report(const Json& report, const std::string& path) {
  if (path == "-") {
    std::printf("%s\n", report.dump(2).c_str());
    return {};
  }
  std::printf("%s: %lld requests (%lld failed) in %.2f s\n",
              report["benchmark"].get<std::string>().c_str(),
              static_cast<long long>(report["requests"].get<int64_t>()),
              static_cast<long long>(report["failed"].get<int64_t>()),
              report["seconds"].get<double>());
  std::printf("  %-24s %10.2f /s\n", "requests", report["requests_per_second"].get<double>());
  std::printf(
      "  %-24s %10.2f /s\n", "output tokens", report["output_tokens_per_second"].get<double>());
  std::printf("  %-24s %10.2f /s\n", "all tokens", report["total_tokens_per_second"].get<double>());
  std::printf(
      "  %-24s %10s %10s %10s %10s %10s\n", "milliseconds", "mean", "p50", "p90", "p99", "max");
  print_row("time to first token", report["ttft_ms"]);
  print_row("between tokens", report["itl_ms"]);
  print_row("per token, by request", report["tpot_ms"]);
  print_row("end to end", report["e2e_ms"]);
  if (path.empty()) return {};
  std::ofstream out(path);
  out << report.dump(2) << '\n';
  if (!out) return invalid_argument("--output-json " + path + ": cannot write");
  return {};
}

}  // namespace baton
