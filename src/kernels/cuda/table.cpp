#include "kernels/cuda/ops.h"

namespace baton::cuda {

const KernelTable& table() {
  static constexpr KernelTable kTable = {
      .name = "cuda",
      .embed = &cuda::embed,
      .rms_norm = &cuda::rms_norm,
      .layer_norm = &cuda::layer_norm,
      .matmul = &cuda::matmul,
      .head_matmul = &cuda::head_matmul,
      .rope = &cuda::rope,
      .silu_mul = &cuda::silu_mul,
      .add = &cuda::add,
      .gather_rows = &cuda::gather_rows,
      .store_latent = &cuda::store_latent,
      .store_index_keys = &cuda::store_index_keys,
      .store_plain = &cuda::store_plain,
      .mla_attention = &cuda::mla_attention,
      .gqa_attention = &cuda::gqa_attention,
      .index_scores = &cuda::index_scores,
      .select_top_k = &cuda::select_top_k,
      .index_select = &cuda::index_select,
      .route = &cuda::route,
      .moe = &cuda::moe,
      .argmax = &cuda::argmax,
  };
  return kTable;
}

}  // namespace baton::cuda
