// The ops of the CUDA table, one .cu file per group. Plain, correct kernels for sm_90a: each
// accumulates in f32 in an order that depends on the inner dimensions alone. None allocates,
// waits or reads device memory on the host, so that any sequence of them can be captured in a
// graph; grids come from host-known shapes, and positions are read on the device.
#pragma once

#include "kernels/kernels.h"

namespace baton::cuda {

const KernelTable& table();

void embed(Queue& queue, const EmbedArgs& args);
void rms_norm(Queue& queue, const RmsNormArgs& args);
void layer_norm(Queue& queue, const LayerNormArgs& args);
void matmul(Queue& queue, const MatmulArgs& args);
void head_matmul(Queue& queue, const HeadMatmulArgs& args);
void rope(Queue& queue, const RopeArgs& args);
void silu_mul(Queue& queue, const SiluMulArgs& args);
void add(Queue& queue, const AddArgs& args);
void gather_rows(Queue& queue, const GatherRowsArgs& args);
void store_latent(Queue& queue, const StoreLatentArgs& args);
void store_index_keys(Queue& queue, const StoreIndexKeysArgs& args);
void store_plain(Queue& queue, const StorePlainArgs& args);
void mla_attention(Queue& queue, const MlaAttentionArgs& args);
void gqa_attention(Queue& queue, const GqaAttentionArgs& args);
void index_scores(Queue& queue, const IndexScoresArgs& args);
void select_top_k(Queue& queue, const SelectTopKArgs& args);
void index_select(Queue& queue, const IndexSelectArgs& args);
void route(Queue& queue, const RouteArgs& args);
void moe(Queue& queue, const MoeArgs& args);
void argmax(Queue& queue, const ArgmaxArgs& args);

}  // namespace baton::cuda
