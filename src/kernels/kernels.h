// The kernel contract: the second device seam. Every backend fills one KernelTable; models
// call nothing else. Adding an op = one Args struct, one field, one reference, one case file.
//
// Calls enqueue work on `queue` and may return at once. Shapes were checked when the model was
// loaded, so kernels CHECK and return no errors. Activations are f32; weights and KV rows have
// their stored forms (WeightView, row formats) and are expanded inside the op. An op of one
// token gives the same bits whatever other tokens are in the call: reductions run in an order
// that depends on the op's inner dimensions alone, never on the number of rows, on how a
// prompt was chunked, or on the number of threads.
//
// Wide ops (index_select, moe) have a reference that is the composition of the simple ones; a
// backend overrides what it does better and calls Queue::count_fallback() where it does not.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/device.h"
#include "device/tensor.h"
#include "kv_cache/row_formats/index_page.h"
#include "kv_cache/row_formats/latent_row.h"
#include "kv_cache/row_formats/plain_row.h"

namespace baton {

enum class WeightForm : uint8_t { kF32, kBF16, kF16, kFp8Block, kNvfp4 };

// A matrix [rows, columns] = [out, in] as stored. Plain data: tables of it live in device
// memory.
struct WeightView {
  const void* data = nullptr;    // row-major values; nvfp4: two per byte, even column low
  const void* scales = nullptr;  // fp8: f32 [ceil(rows/block_rows), ceil(columns/block_columns)]
                                 // nvfp4: e4m3 [rows, columns / 16]
  int64_t rows = 0;
  int64_t columns = 0;
  float global_scale = 1.0F;  // nvfp4: multiplier of the whole matrix
  int32_t block_rows = 0;     // fp8 only; the last block may be partial
  int32_t block_columns = 0;
  WeightForm form = WeightForm::kF32;

  bool empty() const { return data == nullptr; }
};

// How this step's tokens map to sequences and blocks. Built once per step by ModelRunner, read
// by every layer. A token at position p of its sequence sees positions 0..p.
struct BatchLayout {
  ConstTensor positions;    // [tokens] i32
  ConstTensor sequence_of;  // [tokens] i32, row of block_table
  ConstTensor block_table;  // [sequences, max_blocks] i32, -1 = none
  int32_t max_context = 0;  // upper bound of positions + 1 in this batch (host value)

  int64_t tokens() const { return positions.dim(0); }
};

// One layer's part of the block pool. The row of position p of sequence s starts at
//   blocks + block_table[s][p / 64] * block_stride + offset + (p % 64) * row bytes.
struct LatentCache {
  uint8_t* blocks = nullptr;
  int64_t block_stride = 0;
  int64_t offset = 0;
  LatentRow row;
};
struct IndexCache {
  uint8_t* blocks = nullptr;
  int64_t block_stride = 0;
  int64_t offset = 0;  // of the page
  IndexPage page;
};
struct PlainCache {
  uint8_t* blocks = nullptr;
  int64_t block_stride = 0;
  int64_t offset = 0;
  PlainRow row;
};

struct EmbedArgs {
  WeightView table;       // [vocab, hidden], f32, bf16 or f16
  ConstTensor token_ids;  // [tokens] i32
  Tensor out;             // [tokens, hidden]
};

struct RmsNormArgs {
  ConstTensor x;       // [rows, n], rows may be strided
  ConstTensor weight;  // [n] f32
  float epsilon;
  Tensor out;  // [rows, n]; may alias x
};

struct LayerNormArgs {
  ConstTensor x;       // [rows, n], rows may be strided
  ConstTensor weight;  // [n] f32
  ConstTensor bias;    // [n] f32
  float epsilon;
  Tensor out;  // [rows, n]; may alias x
};

// out = x weight^T (+ bias)
struct MatmulArgs {
  ConstTensor x;      // [m, k], rows may be strided
  WeightView weight;  // [n, k]
  ConstTensor bias;   // [n] f32 or empty
  Tensor out;         // [m, n], rows may be strided; must not alias x
};

// One small matrix per head: out[t, h, :] = weight[h] x[t, h, :]. The two absorbed halves of
// kv_b_proj.
struct HeadMatmulArgs {
  ConstTensor x;       // [tokens, heads, k], tokens and heads may be strided
  ConstTensor weight;  // [heads, n, k] f32, bf16 or f16
  Tensor out;          // [tokens, heads, n], tokens and heads may be strided
};

// Rotates x in place by angle f32(inv_freq[i] * f32(position)); cos and sin of that rounded f32
// angle, times attention_factor, as Hugging Face computes them (models.md A.5). Interleaved:
// pair (2i, 2i + 1); otherwise half-split: pair (i, i + n/2). Results stay in the same places.
struct RopeArgs {
  Tensor x;               // [tokens, heads, n], tokens and heads may be strided
  ConstTensor positions;  // [tokens] i32
  ConstTensor inv_freq;   // [n / 2] f32
  float attention_factor;
  bool interleaved;
};

// out = silu(gate) * up
struct SiluMulArgs {
  ConstTensor gate;  // [tokens, n]
  ConstTensor up;    // [tokens, n]
  Tensor out;        // [tokens, n]; may alias gate or up
};

// out += x
struct AddArgs {
  ConstTensor x;  // [tokens, n]
  Tensor out;     // [tokens, n]
};

struct GatherRowsArgs {
  ConstTensor x;     // [tokens, n]
  ConstTensor rows;  // [count] i32
  Tensor out;        // [count, n]
};

// Encodes this step's rows into the blocks their positions fall in.
struct StoreLatentArgs {
  ConstTensor latent;  // [tokens, latent], normed; rows may be strided
  ConstTensor rope;    // [tokens, rope], rotated; rows may be strided
  const BatchLayout& batch;
  LatentCache cache;
};
struct StoreIndexKeysArgs {
  ConstTensor keys;  // [tokens, dim], normed and rotated
  const BatchLayout& batch;
  IndexCache cache;
};
struct StorePlainArgs {
  ConstTensor keys;    // [tokens, kv_heads * head_dim]; rows may be strided
  ConstTensor values;  // [tokens, kv_heads * head_dim]; rows may be strided
  const BatchLayout& batch;
  PlainCache cache;
};

// Absorbed MLA attention, the one form for prefill, chunked prefill and decode:
//   score[h, t] = (q_latent[h] . latent[t] + q_rope[h] . rope[t]) * scale
//   out[h] = sum_t softmax(score[h])[t] * latent[t]
// over all visible t, or over the selected ones.
struct MlaAttentionArgs {
  ConstTensor q_latent;  // [tokens, heads, latent]
  ConstTensor q_rope;    // [tokens, heads, rope], tokens and heads may be strided
  const BatchLayout& batch;
  LatentCache cache;
  ConstTensor selection;  // [tokens, top_k] i32 ascending positions, -1 after the last; or empty
  float scale;
  Tensor out;  // [tokens, heads, latent]
};

// Grouped-query attention over plain rows; query head h reads kv head h / (heads / kv_heads).
struct GqaAttentionArgs {
  ConstTensor q;  // [tokens, heads, head_dim], tokens may be strided
  const BatchLayout& batch;
  PlainCache cache;
  float scale;
  Tensor out;  // [tokens, heads, head_dim]
};

// score[t] = sum_h head_weight[h] * relu(q[h] . key[t]) * scale over visible t; -inf elsewhere
// (models.md A.6; scale = dim^-0.5 * heads^-0.5).
struct IndexScoresArgs {
  ConstTensor q;             // [tokens, heads, dim], rotated
  ConstTensor head_weights;  // [tokens, heads]
  const BatchLayout& batch;
  IndexCache cache;
  float scale;
  int64_t first_token;  // scores row r belongs to token first_token + r of the batch
  Tensor scores;        // [count, max_context]
};

// The top_k best visible positions per token, in ascending order of position, -1 after the
// last. Equal scores: the lowest position wins. With no more than top_k visible positions: all.
struct SelectTopKArgs {
  ConstTensor scores;  // [count, max_context]
  const BatchLayout& batch;
  int64_t first_token;
  Tensor selection;  // [count, top_k] i32
};

// Wide: scores and selection of all tokens, in groups of scores.dim(0) tokens.
struct IndexSelectArgs {
  ConstTensor q;             // [tokens, heads, dim], rotated
  ConstTensor head_weights;  // [tokens, heads]
  const BatchLayout& batch;
  IndexCache cache;
  float scale;
  Tensor scores;     // workspace [group, max_context]
  Tensor selection;  // [tokens, top_k] i32
};

enum class RouterScoring : uint8_t { kSigmoid, kSoftmax };
// How the score of an expert group is formed for group-limited routing.
enum class GroupScore : uint8_t { kTopTwoSum, kMax };

// Chooses experts and their weights (models.md A.7, B.1, C). The bias enters the choice only.
struct RouteArgs {
  ConstTensor logits;  // [tokens, experts]
  ConstTensor bias;    // [experts] f32 or empty
  RouterScoring scoring;
  GroupScore group_score;
  int32_t groups;      // 1: no group limit
  int32_t top_groups;  // groups kept
  bool normalize;      // divide the chosen weights by (their sum + 1e-20)
  float scaling_factor;
  Tensor experts;  // [tokens, top_k] i32, ascending by expert id
  Tensor weights;  // [tokens, top_k]
};

// Wide: out[t] = sum_j weight[t, j] * down_e(silu(gate_e(x[t])) * up_e(x[t])), e = experts[t, j],
// added in ascending order of expert id.
struct MoeArgs {
  ConstTensor x;               // [tokens, hidden]
  ConstTensor experts;         // [tokens, top_k] i32
  ConstTensor weights;         // [tokens, top_k]
  const WeightView* matrices;  // device memory, [expert_count][3]: gate, up, down
  int64_t expert_count;
  int64_t intermediate;  // rows of gate and up
  Tensor workspace;      // [3 * tokens * top_k, max(hidden, intermediate)]
  Tensor out;            // [tokens, hidden]
};

// Index of the largest value per row, the lowest on ties; -1 when the row holds a NaN or its
// largest value is infinite: such a row must never become a token.
struct ArgmaxArgs {
  ConstTensor logits;  // [rows, vocab]
  Tensor out;          // [rows] i32
};

struct KernelTable {
  std::string_view name;  // "reference", "cpu_avx512", "cuda"

  void (*embed)(Queue&, const EmbedArgs&);
  void (*rms_norm)(Queue&, const RmsNormArgs&);
  void (*layer_norm)(Queue&, const LayerNormArgs&);
  void (*matmul)(Queue&, const MatmulArgs&);
  void (*head_matmul)(Queue&, const HeadMatmulArgs&);
  void (*rope)(Queue&, const RopeArgs&);
  void (*silu_mul)(Queue&, const SiluMulArgs&);
  void (*add)(Queue&, const AddArgs&);
  void (*gather_rows)(Queue&, const GatherRowsArgs&);
  void (*store_latent)(Queue&, const StoreLatentArgs&);
  void (*store_index_keys)(Queue&, const StoreIndexKeysArgs&);
  void (*store_plain)(Queue&, const StorePlainArgs&);
  void (*mla_attention)(Queue&, const MlaAttentionArgs&);
  void (*gqa_attention)(Queue&, const GqaAttentionArgs&);
  void (*index_scores)(Queue&, const IndexScoresArgs&);
  void (*select_top_k)(Queue&, const SelectTopKArgs&);
  void (*index_select)(Queue&, const IndexSelectArgs&);
  void (*route)(Queue&, const RouteArgs&);
  void (*moe)(Queue&, const MoeArgs&);
  void (*argmax)(Queue&, const ArgmaxArgs&);
};

}  // namespace baton
