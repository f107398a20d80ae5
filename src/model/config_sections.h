// The parts of a config.json that several model families share. Internal to src/model.
#pragma once

#include "model/config.h"
#include "model/config_reader.h"

namespace baton {

// rope_parameters (new spelling), rope_scaling (old), rope_theta (inside or outside). `latent`:
// partial_rotary_factor is ignored, the rotated width is qk_rope_head_dim.
RopeConfig read_rope(const ConfigReader& reader, bool latent);

// quantization_config of config.json; `modelopt` is hf_quant_config.json or null.
QuantizationDeclaration read_quantization(const ConfigReader& reader, const Json& modelopt);

// indexer_types, index_topk_pattern, index_topk_freq / index_skip_topk_offset.
std::vector<IndexerMode> read_indexer_modes(const ConfigReader& reader,
                                            int64_t layers,
                                            std::vector<std::string>& warnings);

// Token ids and sampling defaults: generation_config.json united with config.json.
Status read_generation(const std::string& path, const ConfigReader& reader, ModelConfig& config);

}  // namespace baton
