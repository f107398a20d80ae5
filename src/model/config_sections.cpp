#include "model/config_sections.h"

#include <algorithm>
#include <filesystem>
#include <limits>

namespace baton {
namespace {

constexpr double kLargest = 1e15;

struct RopeName {
  std::string_view name;
  RopeType type;
};
constexpr RopeName kRopeNames[] = {
    {"default", RopeType::kDefault},
    {"linear", RopeType::kLinear},
    {"dynamic", RopeType::kDynamic},
    {"yarn", RopeType::kYarn},
    {"longrope", RopeType::kLongrope},
    {"llama3", RopeType::kLlama3},
};

RopeType read_rope_type(const ConfigReader& reader) {
  const std::string key = reader.first_of({"rope_type", "type"});
  const std::string name = reader.string_or(key, "default");
  std::string known;
  for (const RopeName& entry : kRopeNames) {
    if (entry.name == name) return entry.type;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  reader.fail(key, "one of " + known);
  return RopeType::kDefault;
}

void read_original_length(const ConfigReader& reader, const ConfigReader& root, RopeConfig& rope) {
  // Where both are given, the value outside wins, as in transformers.
  const bool outside = root.has("original_max_position_embeddings");
  const ConfigReader& from = outside ? root : reader;
  if (reader.has("original_max_position_embeddings") || outside) {
    rope.original_max_position = from.integer("original_max_position_embeddings");
    return;
  }
  reader.fail_missing("original_max_position_embeddings",
                      "the length the model was trained on before scaling");
}

// The original length, and the factor: where it is null, the ratio of the lengths.
void read_extension(const ConfigReader& reader, const ConfigReader& root, RopeConfig& rope) {
  read_original_length(reader, root, rope);
  if (reader.has("factor")) {
    rope.factor = reader.number("factor", 1.0, 1e6);
  } else {
    rope.factor = static_cast<double>(root.integer("max_position_embeddings")) /
                  static_cast<double>(std::max<int64_t>(rope.original_max_position, 1));
  }
  rope.attention_factor = reader.optional_number("attention_factor", 1e-6, 1e6);
}

void read_yarn(const ConfigReader& reader, const ConfigReader& root, RopeConfig& rope) {
  read_extension(reader, root, rope);
  rope.beta_fast = reader.number_or("beta_fast", 32.0, 1e-6, 1e6);
  rope.beta_slow = reader.number_or("beta_slow", 1.0, 1e-6, 1e6);
  rope.mscale = reader.number_or("mscale", 0.0, 0.0, 100.0);
  rope.mscale_all_dim = reader.number_or("mscale_all_dim", 0.0, 0.0, 100.0);
  rope.truncate = reader.boolean_or("truncate", true);
}

void read_longrope(const ConfigReader& reader, const ConfigReader& root, RopeConfig& rope) {
  read_extension(reader, root, rope);
  rope.short_factor = reader.numbers("short_factor");
  rope.long_factor = reader.numbers("long_factor");
  if (rope.short_factor.empty()) reader.fail_missing("short_factor", "a list of numbers");
  if (rope.long_factor.empty()) reader.fail_missing("long_factor", "a list of numbers");
  for (const double f : rope.short_factor) {
    if (!(f > 0)) reader.fail("short_factor", "numbers above 0");
  }
  for (const double f : rope.long_factor) {
    if (!(f > 0)) reader.fail("long_factor", "numbers above 0");
  }
}

void read_scaling(const ConfigReader& reader, const ConfigReader& root, RopeConfig& rope) {
  rope.type = read_rope_type(reader);
  switch (rope.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
    case RopeType::kDynamic:
      rope.factor = reader.number("factor", 1.0, 1e6);
      // Read by transformers for every scaled type of the latent families.
      rope.mscale_all_dim = reader.number_or("mscale_all_dim", 0.0, 0.0, 100.0);
      break;
    case RopeType::kYarn:
      read_yarn(reader, root, rope);
      break;
    case RopeType::kLongrope:
      read_longrope(reader, root, rope);
      break;
    case RopeType::kLlama3:
      read_original_length(reader, root, rope);
      rope.factor = reader.number("factor", 1.0, 1e6);
      rope.low_freq_factor = reader.number("low_freq_factor", 1e-6, 1e6);
      rope.high_freq_factor = reader.number("high_freq_factor", 1e-6, 1e6);
      if (!(rope.high_freq_factor > rope.low_freq_factor)) {
        reader.fail("high_freq_factor", "a number above low_freq_factor");
      }
      break;
  }
}

void check_partial_rotary(const ConfigReader& reader, bool latent) {
  if (latent) {
    reader.ledger().mark(reader.path("partial_rotary_factor"),
                         KeyFate::kIrrelevant,
                         "the rotated width is qk_rope_head_dim");
    return;
  }
  if (reader.number_or("partial_rotary_factor", 1.0, 0.0, 1.0) != 1.0) {
    reader.fail_unsupported("partial_rotary_factor", "only 1.0 is supported");
  }
}

std::vector<std::string> names_in(const ConfigReader& reader, std::string_view key) {
  return reader.has(key) ? reader.strings(key) : std::vector<std::string>{};
}

void append(std::vector<std::string>& to, std::vector<std::string> from) {
  to.insert(to.end(), from.begin(), from.end());
}

void read_block_size(const ConfigReader& reader,
                     std::string_view key,
                     QuantizationDeclaration& declared) {
  const std::vector<int64_t> size = reader.integers(key, 1, kMaxCount);
  if (size.empty()) return;
  if (size.size() != 2) {
    reader.fail(key, "two block sizes [rows, columns]");
    return;
  }
  declared.block_rows = size[0];
  declared.block_columns = size[1];
}

// compressed-tensors: groups of targets, each with its own scheme.
void read_groups(const ConfigReader& reader, QuantizationDeclaration& declared) {
  const std::optional<ConfigReader> groups = reader.object("config_groups");
  if (!groups) return;
  for (const auto& [name, value] : groups->json().items()) {
    if (!value.is_object()) continue;
    const std::optional<ConfigReader> group = groups->object(name);
    if (!group) continue;
    if (const auto weights = group->object("weights")) {
      if (weights->string_or("strategy", "") == "block") {
        read_block_size(*weights, "block_structure", declared);
      }
    }
  }
  // Targets and activation schemes: what is quantised shows in the tensors, and activations
  // stay f32.
  reader.ledger().mark_tree(reader.path("config_groups"),
                            KeyFate::kIrrelevant,
                            "decided per tensor by its scale tensors");
}

}  // namespace

RopeConfig read_rope(const ConfigReader& reader, bool latent) {
  RopeConfig rope;
  std::optional<ConfigReader> scaling = reader.object("rope_parameters");
  const std::optional<ConfigReader> old = reader.object("rope_scaling");
  if (scaling && old && dump_json(scaling->json()) != dump_json(old->json())) {
    reader.ledger().fail(ErrorCode::kInvalidArgument,
                         "keys 'rope_parameters' and 'rope_scaling' contradict each other");
  }
  if (scaling && old) {
    reader.ledger().mark_tree(reader.path("rope_scaling"), KeyFate::kUsed);
  }
  if (!scaling) scaling = old;
  if (scaling) {
    read_scaling(*scaling, reader, rope);
    check_partial_rotary(*scaling, latent);
  }
  check_partial_rotary(reader, latent);

  const bool inside = scaling && scaling->has("rope_theta");
  const bool outside = reader.has("rope_theta");
  if (inside) rope.theta = scaling->number("rope_theta", 1.0, kLargest);
  if (outside) {
    const double theta = reader.number("rope_theta", 1.0, kLargest);
    if (inside && theta != rope.theta) {
      reader.fail("rope_theta", "the value of rope_parameters.rope_theta");
    }
    rope.theta = theta;
  }
  if (!inside && !outside) reader.fail_missing("rope_theta", "the base of the rotary frequencies");
  return rope;
}

std::vector<IndexerMode> indexer_modes_from_schedule(int64_t layers, int64_t freq, int64_t offset) {
  std::vector<IndexerMode> modes;
  for (int64_t i = 0; i < layers; ++i) {
    const bool full = std::max<int64_t>(i - offset + 1, 0) % std::max<int64_t>(freq, 1) == 0;
    modes.push_back(full ? IndexerMode::kFull : IndexerMode::kShared);
  }
  return modes;
}

namespace {

// "full" or "F", "shared" or "S".
std::vector<IndexerMode> parse_modes(const ConfigReader& reader,
                                     std::string_view key,
                                     int64_t layers) {
  std::vector<std::string> words;
  const Json* value = reader.find(key);
  if (value != nullptr && value->is_string()) {
    for (const char c : value->get<std::string>()) words.emplace_back(1, c);
  } else {
    words = reader.strings(key);
  }
  std::vector<IndexerMode> modes;
  for (const std::string& word : words) {
    if (word == "full" || word == "F") {
      modes.push_back(IndexerMode::kFull);
    } else if (word == "shared" || word == "S") {
      modes.push_back(IndexerMode::kShared);
    } else {
      reader.fail(key, "only 'full' (F) and 'shared' (S)");
      return {};
    }
  }
  if (static_cast<int64_t>(modes.size()) != layers) {
    reader.fail(key,
                "one entry for each of the " + std::to_string(layers) + " layers, not " +
                    std::to_string(modes.size()));
    return {};
  }
  return modes;
}

}  // namespace

std::vector<IndexerMode> read_indexer_modes(const ConfigReader& reader,
                                            int64_t layers,
                                            std::vector<std::string>& warnings) {
  const bool has_schedule = reader.has("index_topk_freq") || reader.has("index_skip_topk_offset");
  const auto scheduled =
      indexer_modes_from_schedule(layers,
                                  reader.integer_or("index_topk_freq", 1),
                                  reader.integer_or("index_skip_topk_offset", 2));
  std::vector<IndexerMode> modes = scheduled;
  std::string from = "index_topk_freq";
  const auto prefer = [&](std::string_view key) {
    if (!reader.has(key)) return;
    std::vector<IndexerMode> named = parse_modes(reader, key, layers);
    if (named.empty()) return;
    if ((has_schedule || from != "index_topk_freq") && named != modes) {
      warnings.push_back("config.json: '" + std::string(key) + "' contradicts '" + from + "'; '" +
                         std::string(key) + "' decides");
    }
    modes = std::move(named);
    from = key;
  };
  prefer("index_topk_pattern");
  prefer("indexer_types");
  if (!modes.empty() && modes.front() == IndexerMode::kShared) {
    reader.fail(from, "layer 0 to be full: there is no earlier selection to share");
  }
  return modes;
}

namespace {

constexpr std::string_view kExpanded =
    "weights are expanded inside the product, activations stay f32";
constexpr std::string_view kByTensors = "decided per tensor by its scale tensors";
constexpr std::string_view kByCacheFlag = "--kv-cache-dtype decides the form of cached rows";

constexpr std::pair<std::string_view, std::string_view> kIrrelevantToWeights[] = {
    {"activation_scheme", kExpanded},
    {"scale_fmt", kExpanded},
    {"transform_config", kExpanded},
    {"group_size", kByTensors},
    {"quantized_layers", kByTensors},
    {"sparsity_config", kByTensors},
    {"kv_cache_scheme", kByCacheFlag},
    {"kv_cache_quant_algo", kByCacheFlag},
    {"quantization_status", "says how the file was written"},
    {"global_compression_ratio", "says how the file was written"},
    {"version", "says how the file was written"},
    {"producer", "says how the file was written"},
};

std::string read_method(const ConfigReader& reader, const std::string& algorithm) {
  const std::string method = reader.string_or("quant_method", "");
  if (method.empty()) return algorithm.empty() ? "unnamed" : "modelopt";
  return reader.one_of(
      "quant_method", "", {"fp8", "modelopt", "modelopt_fp4", "compressed-tensors"});
}

QuantizationDeclaration read_declared(const ConfigReader& reader) {
  QuantizationDeclaration declared;
  const std::string algorithm = reader.string_or("quant_algo", "");
  const std::string format = reader.string_or("format", "");
  const std::string fmt = reader.string_or("fmt", "");
  if (!fmt.empty() && fmt != "e4m3" && fmt != "float8_e4m3fn") reader.fail("fmt", "'e4m3'");
  declared.method = read_method(reader, algorithm);
  declared.description = declared.method;
  for (const std::string& detail : {algorithm, format, fmt}) {
    if (!detail.empty()) declared.description += " " + detail;
  }
  read_block_size(reader, "weight_block_size", declared);
  read_groups(reader, declared);
  for (const std::string_view key :
       {"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"}) {
    append(declared.excluded, names_in(reader, key));
  }
  for (const auto& [key, reason] : kIrrelevantToWeights) {
    reader.ledger().mark_tree(reader.path(key), KeyFate::kIrrelevant, std::string(reason));
  }
  return declared;
}

// hf_quant_config.json; its errors go to the ledger of config.json.
QuantizationDeclaration read_modelopt(const Json& file, ConfigLedger& errors) {
  QuantizationDeclaration declared;
  ConfigLedger ledger("hf_quant_config.json", file);
  if (const auto reader = ConfigReader(file, ledger).object("quantization")) {
    declared.method = "modelopt";
    declared.description = "modelopt " + reader->string_or("quant_algo", "");
    append(declared.excluded, names_in(*reader, "exclude_modules"));
  }
  if (ledger.error()) errors.fail(ledger.error()->code, ledger.error()->message);
  return declared;
}

}  // namespace

QuantizationDeclaration read_quantization(const ConfigReader& reader, const Json& modelopt) {
  std::optional<ConfigReader> q = reader.object("quantization_config");
  if (!q) q = reader.object("compression_config");
  QuantizationDeclaration declared;
  if (q) {
    declared = read_declared(*q);
  } else if (modelopt.is_object()) {
    declared = read_modelopt(modelopt, reader.ledger());
  }
  if (declared.block_rows > 0) {
    declared.description += ", blocks of " + std::to_string(declared.block_rows) + " x " +
                            std::to_string(declared.block_columns);
  }
  return declared;
}

namespace {

void add_eos(const ConfigReader& reader, std::vector<int32_t>& ids) {
  const Json* value = reader.find("eos_token_id");
  if (value == nullptr) return;
  std::vector<int64_t> found;
  if (value->is_array()) {
    found = reader.integers("eos_token_id", 0, std::numeric_limits<int32_t>::max());
  } else {
    found = {reader.integer("eos_token_id", 0, std::numeric_limits<int32_t>::max())};
  }
  for (const int64_t id : found) {
    const auto token = static_cast<int32_t>(id);
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  }
}

void set_token(const ConfigReader& reader, std::string_view key, std::optional<int32_t>& id) {
  if (!reader.has(key)) return;
  // Some writers give a list; its first entry is the one used for padding.
  const Json* value = reader.find(key);
  if (value->is_array()) {
    const auto ids = reader.integers(key, -1, std::numeric_limits<int32_t>::max());
    if (!ids.empty()) id = static_cast<int32_t>(ids.front());
    return;
  }
  const int64_t token = reader.integer(key, -1, std::numeric_limits<int32_t>::max());
  if (token >= 0) id = static_cast<int32_t>(token);
}

void set_number(const ConfigReader& reader,
                std::string_view key,
                double least,
                double most,
                std::optional<float>& to) {
  if (const auto value = reader.optional_number(key, least, most)) to = static_cast<float>(*value);
}

}  // namespace

Status read_generation(const std::string& path, const ConfigReader& reader, ModelConfig& config) {
  std::vector<int32_t> later;
  add_eos(reader, later);
  set_token(reader, "bos_token_id", config.bos_token_id);
  set_token(reader, "pad_token_id", config.pad_token_id);
  const Result<Json> json = read_json_file(path);
  if (!json && json.error().code != ErrorCode::kNotFound) return json.error();
  if (json) {
    if (!json->is_object()) return invalid_argument(path + ": expected a JSON object");
    ConfigLedger ledger(path, *json);
    const ConfigReader generation(*json, ledger);
    add_eos(generation, config.eos_token_ids);
    set_token(generation, "bos_token_id", config.bos_token_id);
    set_token(generation, "pad_token_id", config.pad_token_id);
    set_number(generation, "temperature", 0.0, 100.0, config.temperature);
    set_number(generation, "top_p", 1e-6, 1.0, config.top_p);
    set_number(generation, "min_p", 0.0, 1.0, config.min_p);
    set_number(generation, "repetition_penalty", 1e-6, 1e6, config.repetition_penalty);
    if (generation.has("top_k")) {
      config.top_k = static_cast<int32_t>(
          generation.integer("top_k", -1, std::numeric_limits<int32_t>::max()));
    }
    config.do_sample = generation.optional_boolean("do_sample");
    if (ledger.error()) return *ledger.error();
  }
  for (const int32_t id : later) {
    if (std::find(config.eos_token_ids.begin(), config.eos_token_ids.end(), id) ==
        config.eos_token_ids.end()) {
      config.eos_token_ids.push_back(id);
    }
  }
  return {};
}

}  // namespace baton
