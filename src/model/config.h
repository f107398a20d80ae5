// What a checkpoint's config.json and generation_config.json declare, read once, with a ledger
// of who consumed which key: a declaration that nobody executes must be seen (baton doctor,
// --strict), not lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace baton {

enum class IndexerMode : uint8_t { kNone, kFull, kShared };
enum class RopeType : uint8_t { kDefault, kLinear, kDynamic, kYarn, kLongrope, kLlama3 };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  int64_t original_max_position = 0;  // 0: not declared
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double mscale = 0.0;
  double mscale_all_dim = 0.0;
  bool truncate = true;  // yarn: round the borders of the ramp to whole dimensions
  std::optional<double> attention_factor = {};
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::vector<double> short_factor = {}, long_factor = {};  // longrope
};

// The fate of every key of a JSON file.
enum class KeyFate : uint8_t { kUsed, kIrrelevant, kUnconsumed };
struct LedgerEntry {
  std::string key;  // dotted path, "rope_parameters.rope_theta"
  KeyFate fate = KeyFate::kUnconsumed;
  std::string reason;  // why an irrelevant key is irrelevant
};

// What quantization_config (or hf_quant_config.json) declares. Whether one tensor is quantised
// is decided by its scale tensors; this only gives block sizes and is checked for consistency.
struct QuantizationDeclaration {
  std::string method;       // "fp8", "modelopt", "compressed-tensors"; empty: none declared
  std::string description;  // "fp8 e4m3, blocks of 128 x 128"
  int64_t block_rows = 0;   // 0: not declared
  int64_t block_columns = 0;
  std::vector<std::string> excluded;  // names, shell wildcards, "re:" regular expressions
};

struct ModelConfig {
  std::string folder;
  std::string model_type;    // "glm_moe_dsa"
  std::string architecture;  // "GlmMoeDsaForCausalLM"

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;  // without MTP layers
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // GQA only
  int64_t intermediate_size = 0;
  int64_t max_position_embeddings = 0;
  float rms_norm_eps = 1e-6F;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  std::string dtype = "bfloat16";  // declared: torch_dtype or dtype

  // MLA
  int64_t q_lora_rank = 0;  // 0: plain q_proj
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  float latent_norm_eps = 1e-6F;  // of q_a_layernorm and kv_a_layernorm (models.md A.4)
  bool rope_interleave = true;
  RopeConfig rope;

  // DSA
  int64_t index_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_top_k = 0;
  bool indexer_rope_interleave = true;
  std::vector<IndexerMode> indexer_modes;  // one per layer; empty without an indexer

  // MoE
  int64_t num_experts = 0;
  int64_t experts_per_token = 0;
  int64_t shared_experts = 0;
  int64_t moe_intermediate_size = 0;
  int64_t expert_groups = 1;
  int64_t top_groups = 1;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1.0F;
  bool softmax_routing = false;
  bool group_max_score = false;  // a group's score is its largest, not its two largest
  std::vector<bool> moe_layers;  // one per layer

  int64_t num_mtp_layers = 0;

  // generation_config.json, united with config.json
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<bool> do_sample;

  QuantizationDeclaration quantization;
  Json json;  // the whole of config.json

  std::vector<LedgerEntry> ledger;    // of config.json
  std::vector<std::string> warnings;  // contradictions that a stated rule resolved

  bool has_indexer() const { return !indexer_modes.empty(); }
  bool is_latent() const { return kv_lora_rank > 0; }
  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

// Reads config.json (and, when there, generation_config.json and hf_quant_config.json). Works
// without any weight file. Errors name file and key, what was expected and what was found.
Result<ModelConfig> read_model_config(const std::string& folder);

// The values of model_type that read_model_config knows.
std::vector<std::string> supported_model_types();

// Which layers run their own indexer (models.md A.2). `types` (indexer_types) wins over
// `pattern` ("FSSF..."), which wins over freq and offset: layer i is full when
// max(i - offset + 1, 0) mod freq = 0.
std::vector<IndexerMode> indexer_modes_from_schedule(int64_t layers, int64_t freq, int64_t offset);

}  // namespace baton
