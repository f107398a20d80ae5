#include "model/config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "model/config_reader.h"
#include "model/config_sections.h"
#include "model/nearest_name.h"

#ifndef BATON_VERSION
#error "the build defines BATON_VERSION"
#endif

namespace baton {
namespace {

struct Family {
  std::string_view model_type;
  std::string_view architecture;  // what architectures[0] says
  void (*read)(const ConfigReader&, ModelConfig&);
};

void read_glm_moe_dsa(const ConfigReader& reader, ModelConfig& config);
void read_deepseek_v32(const ConfigReader& reader, ModelConfig& config);
void read_deepseek_v3(const ConfigReader& reader, ModelConfig& config);
void read_deepseek_v2(const ConfigReader& reader, ModelConfig& config);
void read_qwen3(const ConfigReader& reader, ModelConfig& config);
void read_qwen3_moe(const ConfigReader& reader, ModelConfig& config);
void read_scripted(const ConfigReader& reader, ModelConfig& config);

constexpr std::array kFamilies{
    Family{"glm_moe_dsa", "GlmMoeDsaForCausalLM", &read_glm_moe_dsa},
    Family{"deepseek_v32", "DeepseekV32ForCausalLM", &read_deepseek_v32},
    Family{"deepseek_v3", "DeepseekV3ForCausalLM", &read_deepseek_v3},
    Family{"deepseek_v2", "DeepseekV2ForCausalLM", &read_deepseek_v2},
    Family{"glm4_moe_lite", "Glm4MoeLiteForCausalLM", &read_deepseek_v3},
    Family{"qwen3", "Qwen3ForCausalLM", &read_qwen3},
    Family{"qwen3_moe", "Qwen3MoeForCausalLM", &read_qwen3_moe},
    Family{"scripted", "ScriptedForTests", &read_scripted},
};

// Keys that change nothing here, with the reason. Families add theirs where they are read.
struct IrrelevantKey {
  std::string_view key;
  std::string_view reason;
};
constexpr std::string_view kTraining = "matters in training only";
constexpr std::string_view kWriter = "says how the file was written";
constexpr std::string_view kGeneration = "generation default of the writer's library";
constexpr std::array kIrrelevant{
    IrrelevantKey{"attention_dropout", kTraining},
    IrrelevantKey{"hidden_dropout", kTraining},
    IrrelevantKey{"initializer_range", kTraining},
    IrrelevantKey{"router_aux_loss_coef", kTraining},
    IrrelevantKey{"aux_loss_alpha", kTraining},
    IrrelevantKey{"seq_aux", kTraining},
    IrrelevantKey{"output_router_logits", kTraining},
    IrrelevantKey{"router_jitter_noise", kTraining},
    IrrelevantKey{"router_bias_update_speed", kTraining},
    IrrelevantKey{"pretraining_tp", kTraining},
    IrrelevantKey{"ep_size", "the split over devices is ours to choose"},
    IrrelevantKey{"auto_map", "points to Python code"},
    IrrelevantKey{"transformers_version", kWriter},
    IrrelevantKey{"_name_or_path", kWriter},
    IrrelevantKey{"unsloth_version", kWriter},
    IrrelevantKey{"use_cache", "the cache is always used"},
    IrrelevantKey{"_attn_implementation", kWriter},
    IrrelevantKey{"return_dict", kWriter},
    IrrelevantKey{"output_attentions", kWriter},
    IrrelevantKey{"output_hidden_states", kWriter},
    IrrelevantKey{"chunk_size_feed_forward", kWriter},
    IrrelevantKey{"is_decoder", kWriter},
    IrrelevantKey{"is_encoder_decoder", kWriter},
    IrrelevantKey{"problem_type", kWriter},
    IrrelevantKey{"id2label", kWriter},
    IrrelevantKey{"label2id", kWriter},
    IrrelevantKey{"task_specific_params", kWriter},
    IrrelevantKey{"use_return_dict", kWriter},
    IrrelevantKey{"do_sample", kGeneration},
    IrrelevantKey{"temperature", kGeneration},
    IrrelevantKey{"top_k", kGeneration},
    IrrelevantKey{"top_p", kGeneration},
    IrrelevantKey{"max_length", kGeneration},
    IrrelevantKey{"min_length", kGeneration},
};

void mark_irrelevant(const ConfigReader& reader, std::string_view key, const std::string& reason) {
  reader.ledger().mark_tree(reader.path(key), KeyFate::kIrrelevant, reason);
}

// dtype (new spelling) or torch_dtype. Only a declaration: the stored form decides.
std::string read_dtype(const ConfigReader& reader, std::vector<std::string>& warnings) {
  const std::string key = reader.first_of({"dtype", "torch_dtype"});
  std::string name = reader.string_or(key, "auto");
  if (name.starts_with("torch.")) name.erase(0, 6);
  const std::array known{"float32", "bfloat16", "float16", "auto"};
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    warnings.push_back("config.json: key '" + key +
                       "': expected float32, bfloat16, float16 or auto, got '" + name +
                       "'; the stored form of each tensor decides");
    name = "auto";
  }
  return name;
}

// What every decoder has.
void read_common(const ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("hidden_size");
  config.num_layers = reader.integer("num_hidden_layers", 1, 4096);
  config.num_heads = reader.integer("num_attention_heads", 1, 65536);
  config.intermediate_size = reader.integer("intermediate_size");
  config.max_position_embeddings = reader.integer("max_position_embeddings");
  config.rms_norm_eps = static_cast<float>(reader.number("rms_norm_eps", 0.0, 1.0));
  config.tie_word_embeddings = reader.boolean_or("tie_word_embeddings", false);
  config.attention_bias = reader.boolean_or("attention_bias", false);
  config.dtype = read_dtype(reader, config.warnings);
  reader.one_of("hidden_act", "silu", {"silu"});
  if (reader.boolean_or("mlp_bias", false)) {
    reader.fail_unsupported("mlp_bias", "biases in the MLP are not supported");
  }
}

// mlp_layer_types, or first_k_dense_replace with moe_layer_freq.
void read_moe_layers(const ConfigReader& reader, int64_t default_dense, ModelConfig& config) {
  const int64_t dense = reader.integer_or("first_k_dense_replace", default_dense);
  const int64_t every = reader.integer_or("moe_layer_freq", 1, 1);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    config.moe_layers.push_back(i >= dense && i % every == 0);
  }
  if (!reader.has("mlp_layer_types")) return;
  const std::vector<std::string> types = reader.strings("mlp_layer_types");
  if (static_cast<int64_t>(types.size()) != config.num_layers) {
    reader.fail("mlp_layer_types",
                "one entry for each of the " + std::to_string(config.num_layers) + " layers");
    return;
  }
  std::vector<bool> moe_layers(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "dense" && types[i] != "sparse") {
      reader.fail("mlp_layer_types", "only 'dense' and 'sparse'");
    }
    moe_layers[i] = types[i] == "sparse";
  }
  const bool counted = reader.has("first_k_dense_replace") || reader.has("moe_layer_freq");
  if (counted && moe_layers != config.moe_layers) {
    config.warnings.push_back(
        "config.json: 'mlp_layer_types' contradicts 'first_k_dense_replace' and 'moe_layer_freq'; "
        "'mlp_layer_types' decides");
  }
  config.moe_layers = std::move(moe_layers);
}

void check_groups(const ConfigReader& reader, ModelConfig& config) {
  if (config.experts_per_token > config.num_experts) {
    reader.fail("num_experts_per_tok",
                "at most the number of experts, " + std::to_string(config.num_experts));
  }
  if (config.expert_groups > 1 && config.num_experts % config.expert_groups != 0) {
    reader.fail("n_group", "a divisor of the " + std::to_string(config.num_experts) + " experts");
  } else if (config.top_groups > config.expert_groups) {
    reader.fail("topk_group", "at most n_group, " + std::to_string(config.expert_groups));
  } else if (config.expert_groups > 1 &&
             config.top_groups * (config.num_experts / config.expert_groups) <
                 config.experts_per_token) {
    reader.fail("topk_group", "enough groups to choose num_experts_per_tok experts from");
  }
}

// The experts of the latent (DeepSeek and GLM) families.
void read_experts(const ConfigReader& reader, ModelConfig& config) {
  const std::string experts =
      reader.first_of({"n_routed_experts", "num_local_experts", "num_experts"});
  if (!reader.has(experts)) config.moe_layers.assign(config.moe_layers.size(), false);
  if (std::find(config.moe_layers.begin(), config.moe_layers.end(), true) ==
      config.moe_layers.end()) {
    for (const std::string_view key : {"num_experts_per_tok",
                                       "moe_intermediate_size",
                                       "n_shared_experts",
                                       "n_group",
                                       "topk_group",
                                       "norm_topk_prob",
                                       "routed_scaling_factor",
                                       "scoring_func",
                                       "topk_method"}) {
      mark_irrelevant(reader, key, "no layer has experts");
    }
    return;
  }
  config.num_experts = reader.integer(experts, 1, 65536);
  config.experts_per_token = reader.integer("num_experts_per_tok", 1, 65536);
  config.moe_intermediate_size = reader.integer("moe_intermediate_size");
  config.shared_experts = reader.integer_or("n_shared_experts", 0, 0, 1024);
  config.expert_groups = std::max<int64_t>(reader.integer_or("n_group", 1, 0, 65536), 1);
  config.top_groups = std::max<int64_t>(reader.integer_or("topk_group", 1, 0, 65536), 1);
  config.norm_topk_prob = reader.boolean_or("norm_topk_prob", config.norm_topk_prob);
  config.routed_scaling_factor =
      static_cast<float>(reader.number_or("routed_scaling_factor", 1.0, -1e6, 1e6));
  check_groups(reader, config);
}

// The MTP layers follow the trunk: layer indices num_layers, num_layers + 1, ...
void read_mtp(const ConfigReader& reader, ModelConfig& config) {
  config.num_mtp_layers =
      reader.integer_or(reader.first_of({"num_nextn_predict_layers", "num_mtp_layers"}), 0, 0, 64);
}

// Multi-head latent attention: every DeepSeek and GLM family.
void read_latent_attention(const ConfigReader& reader, ModelConfig& config) {
  config.q_lora_rank = reader.integer_or("q_lora_rank", 0);
  config.kv_lora_rank = reader.integer("kv_lora_rank");
  config.qk_nope_head_dim = reader.integer("qk_nope_head_dim");
  config.qk_rope_head_dim = reader.integer("qk_rope_head_dim");
  config.v_head_dim = reader.integer("v_head_dim");
  if (config.qk_rope_head_dim % 2 != 0) reader.fail("qk_rope_head_dim", "an even number");
  config.latent_norm_eps =
      static_cast<float>(reader.number_or("mla_latent_norm_eps", 1e-6, 0.0, 1.0));
  config.rope_interleave = reader.boolean_or("rope_interleave", true);
  config.rope = read_rope(reader, /*latent=*/true);
  config.num_kv_heads = 1;
  if (reader.has("qk_head_dim") &&
      reader.integer("qk_head_dim") != config.qk_nope_head_dim + config.qk_rope_head_dim) {
    reader.fail("qk_head_dim", "qk_nope_head_dim + qk_rope_head_dim");
  }
  mark_irrelevant(reader, "head_dim", "the rotated width is qk_rope_head_dim");
  mark_irrelevant(reader, "num_key_value_heads", "all heads share one latent");
  mark_irrelevant(reader, "moe_router_dtype", "the router always runs in f32");
}

void read_indexer(const ConfigReader& reader, ModelConfig& config) {
  config.index_heads = reader.integer("index_n_heads", 1, 65536);
  config.index_head_dim = reader.integer("index_head_dim");
  config.index_top_k = reader.integer("index_topk");
  if (config.index_head_dim < config.qk_rope_head_dim) {
    reader.fail("index_head_dim",
                "at least qk_rope_head_dim, " + std::to_string(config.qk_rope_head_dim));
  }
  if (config.q_lora_rank == 0) {
    reader.fail_missing("q_lora_rank", "the query latent that the indexer reads");
  }
  mark_irrelevant(reader, "index_share_for_mtp_iteration", "the MTP layer is not executed yet");
}

void check_layer_types(const ConfigReader& reader, std::string_view supported) {
  if (!reader.has("layer_types")) return;
  for (const std::string& type : reader.strings("layer_types")) {
    if (type != supported) {
      reader.fail_unsupported("layer_types", "only '" + std::string(supported) + "' layers");
    }
  }
}

void read_glm_moe_dsa(const ConfigReader& reader, ModelConfig& config) {
  read_common(reader, config);
  read_latent_attention(reader, config);
  read_indexer(reader, config);
  config.indexer_modes = read_indexer_modes(reader, config.num_layers, config.warnings);
  config.indexer_rope_interleave = reader.boolean_or("indexer_rope_interleave", true);
  read_moe_layers(reader, 3, config);
  read_experts(reader, config);
  reader.one_of("scoring_func", "sigmoid", {"sigmoid"});
  reader.one_of("topk_method", "noaux_tc", {"noaux_tc"});
  check_layer_types(reader, "deepseek_sparse_attention");
  read_mtp(reader, config);
}

void read_deepseek_v3(const ConfigReader& reader, ModelConfig& config) {
  read_common(reader, config);
  read_latent_attention(reader, config);
  read_moe_layers(reader, config.model_type == "glm4_moe_lite" ? 1 : 3, config);
  read_experts(reader, config);
  reader.one_of("scoring_func", "sigmoid", {"sigmoid"});
  reader.one_of("topk_method", "noaux_tc", {"noaux_tc"});
  check_layer_types(reader, "full_attention");
  read_mtp(reader, config);
}

void read_deepseek_v32(const ConfigReader& reader, ModelConfig& config) {
  read_deepseek_v3(reader, config);
  read_indexer(reader, config);
  config.indexer_modes.assign(static_cast<size_t>(config.num_layers), IndexerMode::kFull);
  config.indexer_rope_interleave = reader.boolean_or("indexer_rope_interleave", false);
}

void read_deepseek_v2(const ConfigReader& reader, ModelConfig& config) {
  read_common(reader, config);
  read_latent_attention(reader, config);
  config.norm_topk_prob = false;
  read_moe_layers(reader, 0, config);
  read_experts(reader, config);
  reader.one_of("scoring_func", "softmax", {"softmax"});
  config.softmax_routing = true;
  const std::string method =
      reader.one_of("topk_method", "greedy", {"greedy", "group_limited_greedy"});
  config.group_max_score = true;
  if (method == "greedy") config.expert_groups = config.top_groups = 1;
  check_layer_types(reader, "full_attention");
  read_mtp(reader, config);
}

void read_qwen3(const ConfigReader& reader, ModelConfig& config) {
  read_common(reader, config);
  config.num_kv_heads = reader.integer_or("num_key_value_heads", config.num_heads, 1, 65536);
  config.head_dim = reader.integer_or("head_dim", config.hidden_size / config.num_heads, 1);
  if (config.num_heads % config.num_kv_heads != 0) {
    reader.fail("num_key_value_heads",
                "a divisor of num_attention_heads, " + std::to_string(config.num_heads));
  }
  if (config.head_dim % 2 != 0) reader.fail("head_dim", "an even number");
  config.rope = read_rope(reader, /*latent=*/false);
  config.rope_interleave = false;
  config.moe_layers.assign(static_cast<size_t>(config.num_layers), false);
  if (reader.boolean_or("use_sliding_window", false)) {
    reader.fail_unsupported("use_sliding_window", "sliding windows are not supported");
  }
  mark_irrelevant(reader, "sliding_window", "use_sliding_window is false");
  mark_irrelevant(reader, "max_window_layers", "use_sliding_window is false");
  check_layer_types(reader, "full_attention");
}

void read_qwen3_moe(const ConfigReader& reader, ModelConfig& config) {
  read_qwen3(reader, config);
  config.num_experts = reader.integer(
      reader.first_of({"num_experts", "num_local_experts", "n_routed_experts"}), 1, 65536);
  config.experts_per_token = reader.integer("num_experts_per_tok", 1, 65536);
  config.moe_intermediate_size = reader.integer("moe_intermediate_size");
  config.norm_topk_prob = reader.boolean_or("norm_topk_prob", false);
  config.softmax_routing = true;
  check_groups(reader, config);
  const int64_t step = reader.integer_or("decoder_sparse_step", 1, 1);
  const std::vector<int64_t> dense = reader.integers("mlp_only_layers", 0, kMaxCount);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const bool listed = std::find(dense.begin(), dense.end(), i) != dense.end();
    config.moe_layers[static_cast<size_t>(i)] = !listed && (i + 1) % step == 0;
  }
}

// Plays given tokens; architectures/scripted.cpp reads its own keys.
void read_scripted(const ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer_or("hidden_size", 1, 1);
  config.num_layers = reader.integer_or("num_hidden_layers", 1, 1, 4096);
  config.num_heads = reader.integer_or("num_attention_heads", 1, 1, 65536);
  config.num_kv_heads = 1;
  config.head_dim = reader.integer_or("head_dim", 2, 1);
  config.max_position_embeddings = reader.integer("max_position_embeddings");
  config.moe_layers.assign(static_cast<size_t>(config.num_layers), false);
  for (const auto& [key, value] : reader.json().items()) {
    reader.ledger().mark_tree(key, KeyFate::kUsed);
  }
}

std::string supported_list() {
  std::string list;
  for (const Family& family : kFamilies) {
    list += (list.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return list;
}

Error unknown_type(const std::string& path, const std::string& what, const std::string& found) {
  std::string message = path + ": " + what + " '" + found + "' is not supported by baton " +
                        BATON_VERSION + "; supported: " + supported_list();
  const std::string nearest = nearest_name(found, supported_model_types());
  if (!nearest.empty()) message += "; nearest: " + nearest;
  return unsupported(message);
}

// model_type decides; where it is missing, architectures[0].
Result<const Family*> find_family(const std::string& path, const ConfigReader& reader) {
  const std::string type = reader.string_or("model_type", "");
  const std::vector<std::string> names = reader.strings("architectures");
  if (reader.ledger().error()) return *reader.ledger().error();
  for (const Family& family : kFamilies) {
    if (type == family.model_type) return &family;
  }
  if (!type.empty()) return unknown_type(path, "model_type", type);
  if (names.empty()) {
    return invalid_argument(
        path +
        ": keys 'model_type' and 'architectures' are missing; supported: " + supported_list());
  }
  for (const Family& family : kFamilies) {
    if (names.front() == family.architecture) return &family;
  }
  return unknown_type(path, "architecture", names.front());
}

// Products of sizes are formed in 64 bits all over the model: no more than these may be asked for.
// GLM-5.2 stays below them by factors of 790 and 69.
void check_sizes(const ModelConfig& c, ConfigLedger& ledger) {
  constexpr double kMostValues = 0x1p60;
  constexpr int64_t kMostMatrices = int64_t{1} << 22;
  const int64_t widest = std::max({c.vocab_size,
                                   c.hidden_size,
                                   c.intermediate_size,
                                   c.moe_intermediate_size * std::max<int64_t>(c.shared_experts, 1),
                                   c.num_heads * (c.qk_head_dim() + c.v_head_dim),
                                   c.num_heads * c.head_dim,
                                   c.q_lora_rank,
                                   c.kv_lora_rank + c.qk_rope_head_dim,
                                   c.index_heads * c.index_head_dim});
  const int64_t matrices = c.num_layers * (12 + 3 * c.num_experts);
  const double values =
      static_cast<double>(matrices) * static_cast<double>(widest) * static_cast<double>(widest);
  if (values <= kMostValues && matrices <= kMostMatrices) return;
  ledger.fail(ErrorCode::kInvalidArgument,
              "the sizes make " + std::to_string(matrices) + " matrices of up to " +
                  std::to_string(widest) + " rows and columns, more than any machine holds");
}

void check_stop_tokens(const ModelConfig& c, ConfigLedger& ledger) {
  for (const int32_t id : c.eos_token_ids) {
    if (id < c.vocab_size) continue;
    ledger.fail(ErrorCode::kInvalidArgument,
                "key 'eos_token_id' here or in generation_config.json: expected tokens below "
                "vocab_size, " +
                    std::to_string(c.vocab_size) + ", got " + std::to_string(id));
  }
}

Result<Json> read_optional_json(const std::string& path) {
  Result<Json> json = read_json_file(path);
  if (!json && json.error().code == ErrorCode::kNotFound) return Json();
  return json;
}

}  // namespace

std::vector<std::string> supported_model_types() {
  std::vector<std::string> types;
  types.reserve(kFamilies.size());
  for (const Family& family : kFamilies) types.emplace_back(family.model_type);
  return types;
}

Result<ModelConfig> read_model_config(const std::string& folder) {
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code)) {
    return not_found(folder + ": expected a model folder, " +
                     (std::filesystem::exists(folder, code) ? "got a file" : "found nothing"));
  }
  const std::filesystem::path base(folder);
  const std::string path = (base / "config.json").string();
  Result<Json> json = read_json_file(path);
  if (!json) return json.error();
  if (!json->is_object()) return invalid_argument(path + ": expected a JSON object");
  const Result<Json> modelopt = read_optional_json((base / "hf_quant_config.json").string());
  if (!modelopt) return modelopt.error();

  ModelConfig config;
  config.folder = folder;
  config.json = std::move(*json);
  ConfigLedger ledger(path, config.json);
  const ConfigReader reader(config.json, ledger);
  const Result<const Family*> family = find_family(path, reader);
  if (!family) return family.error();
  config.model_type = (*family)->model_type;
  config.architecture = (*family)->architecture;
  (*family)->read(reader, config);
  check_sizes(config, ledger);
  config.quantization = read_quantization(reader, *modelopt);
  if (ledger.error()) return *ledger.error();
  const Status generation =
      read_generation((base / "generation_config.json").string(), reader, config);
  if (!generation) return generation.error();
  check_stop_tokens(config, ledger);
  if (ledger.error()) return *ledger.error();
  for (const IrrelevantKey& entry : kIrrelevant) {
    mark_irrelevant(reader, entry.key, std::string(entry.reason));
  }
  config.ledger = ledger.entries();
  return config;
}

}  // namespace baton
