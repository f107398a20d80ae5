#include "kernels/reference/ops.h"
#include "kernels/tables.h"

namespace baton {

const KernelTable& reference_kernels() {
  static constexpr KernelTable kTable = {
      .name = "reference",
      .embed = &reference::embed,
      .rms_norm = &reference::rms_norm,
      .layer_norm = &reference::layer_norm,
      .matmul = &reference::matmul,
      .head_matmul = &reference::head_matmul,
      .rope = &reference::rope,
      .silu_mul = &reference::silu_mul,
      .add = &reference::add,
      .gather_rows = &reference::gather_rows,
      .store_latent = &reference::store_latent,
      .store_index_keys = &reference::store_index_keys,
      .store_plain = &reference::store_plain,
      .mla_attention = &reference::mla_attention,
      .gqa_attention = &reference::gqa_attention,
      .index_scores = &reference::index_scores,
      .select_top_k = &reference::select_top_k,
      .index_select = &reference::index_select,
      .route = &reference::route,
      .moe = &reference::moe,
      .argmax = &reference::argmax,
  };
  return kTable;
}

}  // namespace baton
