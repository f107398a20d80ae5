// How large a model is and what it needs: parameters, bytes by form, KV bytes for every row
// format, and the memory of a given context and concurrency. Reads JSON files and safetensors
// headers only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "kv_cache/block_layout.h"
#include "model/config.h"

namespace baton {

struct ParameterCount {
  int64_t total = 0;   // the trunk: everything but MTP layers
  int64_t active = 0;  // that one token multiplies with: no embedding, only the chosen experts
  int64_t mtp = 0;     // of the declared MTP layers, heads and embeddings shared with the trunk
};

// From the configuration alone (shapes as in models.md A.10).
ParameterCount count_parameters(const ModelConfig& config);

// One row format. The index format is the one that goes with it by default.
struct KvSize {
  std::string name;         // "bfloat16"
  int64_t row_bytes = 0;    // one token in one layer, without index key
  int64_t token_bytes = 0;  // one token in all layers, index keys included
  int64_t block_bytes = 0;  // 64 tokens in all layers, padded to 4 KiB
};

// Formats that the model cannot store are left out.
std::vector<KvSize> kv_sizes(const ModelConfig& config);

struct InspectOptions {
  int64_t context_tokens = 0;  // 0: max_position_embeddings
  int64_t concurrency = 1;     // sequences of that length
  int64_t batched_tokens = 4096;
  KvCacheDtype kv_cache_dtype = KvCacheDtype::kAuto;
};

struct InspectReport {
  std::string folder, architecture, model_type, flow;
  ParameterCount parameters;
  bool has_weights = false;                      // false: bytes are those of bf16 matrices
  std::map<std::string, int64_t> bytes_by_form;  // "bf16" -> bytes in memory
  int64_t weights_bytes = 0;
  std::vector<KvSize> kv;

  // The plan.
  std::string kv_format;
  int64_t context_tokens = 0, concurrency = 0, batched_tokens = 0;
  int64_t kv_bytes = 0;
  int64_t scratch_bytes = 0;  // intermediates of one step, logits included
  int64_t total_bytes() const { return weights_bytes + kv_bytes + scratch_bytes; }
};

Result<InspectReport> inspect_model(const std::string& folder, const InspectOptions& options);

std::string inspect_text(const InspectReport& report);
Json inspect_json(const InspectReport& report);

// "1.23 GiB".
std::string shown_bytes(int64_t bytes);
// "743.38 B", "9.95 M".
std::string shown_count(int64_t count);

}  // namespace baton
