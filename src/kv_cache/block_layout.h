// The one byte image of a block: 64 tokens of KV for all layers, contiguous. Per layer its
// rows (64 latent rows or 64 plain rows), then, in layers with an indexer, the index page.
// The same bytes are what attention reads, what the prefix index names, and what later moves
// to host memory, disk or another machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv_cache/row_formats/index_page.h"
#include "kv_cache/row_formats/latent_row.h"
#include "kv_cache/row_formats/plain_row.h"

namespace baton {

// Blocks start on 4 KiB borders, for direct disk I/O and page-granular registration.
constexpr int64_t kBlockAlignment = 4096;
constexpr int64_t kNoOffset = -1;

enum class LayerCache : uint8_t { kLatent, kLatentWithIndex, kPlain };

struct LayerOffsets {
  int64_t rows = 0;           // bytes from the start of the block to token 0's row
  int64_t index = kNoOffset;  // bytes to the index page; kNoOffset in layers without an indexer
};

struct BlockLayout {
  LatentRow latent;  // meaningful when some layer is kLatent*
  IndexPage index;   // meaningful when some layer is kLatentWithIndex
  PlainRow plain;    // meaningful when some layer is kPlain
  std::vector<LayerOffsets> layers;
  int64_t payload_bytes = 0;  // without the padding at the end
  int64_t stride_bytes = 0;   // payload rounded up to kBlockAlignment

  // Bytes per token over all layers, padding of the stride included.
  double bytes_per_token() const { return static_cast<double>(stride_bytes) / kBlockTokens; }
};

BlockLayout make_block_layout(const std::vector<LayerCache>& layers,
                              const LatentRow& latent,
                              const IndexPage& index,
                              const PlainRow& plain);

// The values of --kv-cache-dtype and --index-cache-dtype.
enum class KvCacheDtype : uint8_t { kAuto, kF32, kBF16, kFp8, kNvfp4 };

// "auto", "float32", "bfloat16", "fp8_ds_mla" (also "fp8"), "nvfp4_ds_mla" (also "nvfp4").
Result<KvCacheDtype> parse_kv_cache_dtype(std::string_view name);
std::string_view kv_cache_dtype_name(KvCacheDtype dtype);

}  // namespace baton
