// What a checkpoint declares and what Baton will execute of it, from its JSON files and
// safetensors headers alone: no weight is read. A declaration that nothing executes is named.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/config.h"
#include "model/weights/weight_reader.h"

namespace baton {

// Matrices whose names differ in numbers only: "model.layers.*.mlp.experts.*.down_proj".
struct TensorGroup {
  std::string name;
  std::map<std::string, int64_t> forms;  // "bf16" -> how many
};

struct DoctorReport {
  ModelConfig config;
  std::string flow;
  enum class Files { kNone, kIndexOnly, kHeaders } files = Files::kNone;

  std::vector<int64_t> full_layers, shared_layers;   // of the indexer
  std::vector<int64_t> dense_layers, expert_layers;  // of the feed-forward
  std::string rope;                                  // in words
  std::string mtp;                                   // in words
  std::vector<TensorGroup> groups;
  WeightReport weights;
  std::vector<std::string> warnings;
  std::optional<std::string> problem;  // why it would not load; nothing when it would

  std::vector<std::string> unconsumed_keys() const;
  // Would load, and with --strict too.
  bool clean() const;
};

// Errors only where there is nothing to report on: no folder, no readable config.json, an
// unsupported model type. A folder that would not load is a report with a problem.
Result<DoctorReport> examine_model(const std::string& folder);

std::string doctor_text(const DoctorReport& report);
Json doctor_json(const DoctorReport& report);
// One line for the log of a server that starts.
std::string doctor_summary(const DoctorReport& report);
// The same of a model that was just loaded.
std::string doctor_summary(const ModelConfig& config, const WeightReport& weights);

}  // namespace baton
