#include "model/architectures.h"

#include <array>
#include <string>

namespace baton {
namespace {

constexpr std::string_view kSparse = "latent attention (MLA) over selected tokens, experts";
constexpr std::string_view kLatent = "latent attention (MLA), experts";

constexpr std::array kArchitectures{
    Architecture{"glm_moe_dsa", kSparse, &build_mla_decoder},
    Architecture{"deepseek_v32", kSparse, &build_mla_decoder},
    Architecture{"deepseek_v3", kLatent, &build_mla_decoder},
    Architecture{"deepseek_v2", kLatent, &build_mla_decoder},
    Architecture{"glm4_moe_lite", kLatent, &build_mla_decoder},
    Architecture{"qwen3", "grouped-query attention", &build_gqa_decoder},
    Architecture{"qwen3_moe", "grouped-query attention, experts", &build_gqa_decoder},
};

KvCacheDtype rows_dtype(KvCacheDtype kv, bool is_f32) {
  if (kv != KvCacheDtype::kAuto) return kv;
  return is_f32 ? KvCacheDtype::kF32 : KvCacheDtype::kBF16;
}

KvCacheDtype keys_dtype(KvCacheDtype index, KvCacheDtype rows) {
  if (index != KvCacheDtype::kAuto) return index;
  return rows == KvCacheDtype::kNvfp4 ? KvCacheDtype::kFp8 : rows;
}

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view model_type) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == model_type) return &architecture;
  }
  return nullptr;
}

Result<CacheFormats> cache_formats(const ModelConfig& config,
                                   KvCacheDtype kv,
                                   KvCacheDtype index,
                                   std::string_view dtype) {
  const bool is_f32 = dtype == "float32" || (dtype == "auto" && config.dtype == "float32");
  const KvCacheDtype rows = rows_dtype(kv, is_f32);
  const KvCacheDtype keys = keys_dtype(index, rows);
  const std::string name(kv_cache_dtype_name(rows));
  CacheFormats formats;
  switch (rows) {
    case KvCacheDtype::kF32:
      formats.latent = LatentRowFormat::kF32;
      formats.plain = PlainRowFormat::kF32;
      break;
    case KvCacheDtype::kFp8:
      formats.latent = LatentRowFormat::kFp8;
      break;
    case KvCacheDtype::kNvfp4:
      formats.latent = LatentRowFormat::kNvfp4;
      break;
    default:
      break;
  }
  if (!config.is_latent() && (rows == KvCacheDtype::kFp8 || rows == KvCacheDtype::kNvfp4)) {
    return invalid_argument("kv cache dtype " + name + ": " + config.model_type +
                            " stores plain keys and values; expected auto, float32 or bfloat16");
  }
  if (rows == KvCacheDtype::kNvfp4 && config.kv_lora_rank % kNvfp4ScaleGroup != 0) {
    return invalid_argument("kv cache dtype " + name +
                            ": expected kv_lora_rank to be a multiple "
                            "of 16, got " +
                            std::to_string(config.kv_lora_rank));
  }
  switch (keys) {
    case KvCacheDtype::kF32:
      formats.index = IndexKeyFormat::kF32;
      break;
    case KvCacheDtype::kFp8:
      formats.index = IndexKeyFormat::kFp8;
      break;
    case KvCacheDtype::kNvfp4:
      return invalid_argument(
          "index cache dtype nvfp4_ds_mla: expected auto, float32, bfloat16 or fp8_ds_mla");
    default:
      formats.index = IndexKeyFormat::kBF16;
      break;
  }
  return formats;
}

BlockLayout model_block_layout(const ModelConfig& config, const CacheFormats& formats) {
  std::vector<LayerCache> layers;
  for (size_t i = 0; i < static_cast<size_t>(config.num_layers); ++i) {
    if (!config.is_latent()) {
      layers.push_back(LayerCache::kPlain);
    } else if (config.has_indexer() && config.indexer_modes[i] == IndexerMode::kFull) {
      layers.push_back(LayerCache::kLatentWithIndex);
    } else {
      layers.push_back(LayerCache::kLatent);
    }
  }
  return make_block_layout(
      layers,
      {.format = formats.latent,
       .latent = static_cast<int32_t>(config.kv_lora_rank),
       .rope = static_cast<int32_t>(config.qk_rope_head_dim)},
      {.format = formats.index, .dim = static_cast<int32_t>(config.index_head_dim)},
      {.format = formats.plain,
       .kv_heads = static_cast<int32_t>(config.num_kv_heads),
       .head_dim = static_cast<int32_t>(config.head_dim)});
}

}  // namespace baton
