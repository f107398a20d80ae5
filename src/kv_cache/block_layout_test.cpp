#include "kv_cache/block_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace baton {
namespace {

TEST(BlockLayout, PutsTheIndexPageOnlyInLayersWithAnIndexer) {
  const BlockLayout layout = make_block_layout(
      {LayerCache::kLatentWithIndex, LayerCache::kLatent, LayerCache::kLatentWithIndex},
      {LatentRowFormat::kFp8, 512, 64},
      {IndexKeyFormat::kFp8, 128},
      {});
  ASSERT_EQ(layout.layers.size(), 3U);
  EXPECT_EQ(layout.layers[0].rows, 0);
  EXPECT_EQ(layout.layers[0].index, 64 * 656);
  EXPECT_EQ(layout.layers[1].rows, 64 * 656 + 8448);
  EXPECT_EQ(layout.layers[1].index, kNoOffset);
  EXPECT_EQ(layout.payload_bytes, 3 * 64 * 656 + 2 * 8448);
  EXPECT_EQ(layout.stride_bytes % kBlockAlignment, 0);
  EXPECT_GE(layout.stride_bytes, layout.payload_bytes);
}

TEST(BlockLayout, Glm52Fp8BlockHasTheSizeOfTheSpec) {
  std::vector<LayerCache> layers;
  for (int i = 0; i < 78; ++i) {
    const bool full = std::max(i - 3 + 1, 0) % 4 == 0;
    layers.push_back(full ? LayerCache::kLatentWithIndex : LayerCache::kLatent);
  }
  const BlockLayout layout =
      make_block_layout(layers, {LatentRowFormat::kFp8, 512, 64}, {IndexKeyFormat::kFp8, 128}, {});
  EXPECT_EQ(layout.payload_bytes, 78 * 64 * 656 + 21 * 8448);
}

TEST(KvCacheDtype, ParsesNamesAndAliasesAndRefusesOthers) {
  EXPECT_EQ(*parse_kv_cache_dtype("fp8"), KvCacheDtype::kFp8);
  EXPECT_EQ(kv_cache_dtype_name(KvCacheDtype::kFp8), "fp8_ds_mla");
  EXPECT_FALSE(parse_kv_cache_dtype("int4"));
}

}  // namespace
}  // namespace baton
