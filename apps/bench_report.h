// What a benchmark measured: percentiles and rates, as a table for people and JSON for tools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace baton {

// One request as its client saw it. Seconds.
struct RequestSample {
  double time_to_first_token = 0.0;
  std::vector<double> inter_token;  // one per token after the first
  double end_to_end = 0.0;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  bool failed = false;
};

// {"mean","p50","p90","p99","max"} in milliseconds; null without values.
Json percentiles_ms(std::vector<double> seconds);

// Totals, rates and percentiles of a run that took `seconds`. `facts` comes first in the object.
Json bench_report(const Json& facts, const std::vector<RequestSample>& samples, double seconds);

// The table on stdout; the JSON to `path` when it is not empty ("-": stdout instead of a table).
Status print_report(const Json& report, const std::string& path);

}  // namespace baton
