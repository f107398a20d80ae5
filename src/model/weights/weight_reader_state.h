// What all copies of one WeightReader share. Internal to model/weights.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/weights/weight_reader.h"

namespace baton {

// "[48 = q_lora_rank, 64 = hidden_size]"
std::string describe_dims(const std::vector<Dim>& dims);

struct WeightReader::State {
  struct Missing {
    std::string name, expected;
  };

  const Checkpoint& checkpoint;
  WeightStore& store;
  const ModelConfig& config;
  Options options;
  std::unordered_set<const StoredTensor*> consumed = {};
  std::vector<std::string> problems = {};
  std::vector<Missing> missing = {};
  std::vector<std::string> quantized = {};  // modules
  WeightReport report = {};
  int64_t done_bytes = 0;
  int64_t reported_bytes = 0;
};

}  // namespace baton
