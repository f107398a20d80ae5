#include "kv_cache/block_layout.h"

#include <array>

#include "base/check.h"

namespace baton {
namespace {

struct NamedDtype {
  std::string_view name;
  KvCacheDtype dtype;
};

// The first name of each value is the one we print.
constexpr std::array kDtypeNames{
    NamedDtype{"auto", KvCacheDtype::kAuto},
    NamedDtype{"float32", KvCacheDtype::kF32},
    NamedDtype{"bfloat16", KvCacheDtype::kBF16},
    NamedDtype{"fp8_ds_mla", KvCacheDtype::kFp8},
    NamedDtype{"nvfp4_ds_mla", KvCacheDtype::kNvfp4},
    NamedDtype{"fp8", KvCacheDtype::kFp8},
    NamedDtype{"nvfp4", KvCacheDtype::kNvfp4},
};

}  // namespace

BlockLayout make_block_layout(const std::vector<LayerCache>& layers,
                              const LatentRow& latent,
                              const IndexPage& index,
                              const PlainRow& plain) {
  BlockLayout layout{.latent = latent, .index = index, .plain = plain, .layers = {}};
  int64_t at = 0;
  for (const LayerCache layer : layers) {
    LayerOffsets offsets{.rows = at};
    const bool is_plain = layer == LayerCache::kPlain;
    at += kBlockTokens * (is_plain ? plain_row_bytes(plain) : latent_row_bytes(latent));
    if (layer == LayerCache::kLatentWithIndex) {
      offsets.index = at;
      at += index_page_bytes(index);
    }
    layout.layers.push_back(offsets);
  }
  BATON_CHECK(at > 0, "a model without KV rows");
  layout.payload_bytes = at;
  layout.stride_bytes = (at + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  return layout;
}

Result<KvCacheDtype> parse_kv_cache_dtype(std::string_view name) {
  for (const NamedDtype& entry : kDtypeNames) {
    if (entry.name == name) return entry.dtype;
  }
  return invalid_argument(
      "kv cache dtype: expected auto, float32, bfloat16, fp8_ds_mla or nvfp4_ds_mla, got '" +
      std::string(name) + "'");
}

std::string_view kv_cache_dtype_name(KvCacheDtype dtype) {
  for (const NamedDtype& entry : kDtypeNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "?";
}

}  // namespace baton
