#include "kernels/tables.h"

namespace baton {
namespace {

template <typename Args>
void nothing(Queue&, const Args&) {}

}  // namespace

const KernelTable& planning_kernels() {
  static constexpr KernelTable kTable = {
      .name = "planning",
      .embed = &nothing<EmbedArgs>,
      .rms_norm = &nothing<RmsNormArgs>,
      .layer_norm = &nothing<LayerNormArgs>,
      .matmul = &nothing<MatmulArgs>,
      .head_matmul = &nothing<HeadMatmulArgs>,
      .rope = &nothing<RopeArgs>,
      .silu_mul = &nothing<SiluMulArgs>,
      .add = &nothing<AddArgs>,
      .gather_rows = &nothing<GatherRowsArgs>,
      .store_latent = &nothing<StoreLatentArgs>,
      .store_index_keys = &nothing<StoreIndexKeysArgs>,
      .store_plain = &nothing<StorePlainArgs>,
      .mla_attention = &nothing<MlaAttentionArgs>,
      .gqa_attention = &nothing<GqaAttentionArgs>,
      .index_scores = &nothing<IndexScoresArgs>,
      .select_top_k = &nothing<SelectTopKArgs>,
      .index_select = &nothing<IndexSelectArgs>,
      .route = &nothing<RouteArgs>,
      .moe = &nothing<MoeArgs>,
      .argmax = &nothing<ArgmaxArgs>,
  };
  return kTable;
}

}  // namespace baton
