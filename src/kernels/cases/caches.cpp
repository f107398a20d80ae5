// The ops that write and read the KV caches.
#include <algorithm>
#include <cmath>

#include "kernels/cases/cached_context.h"

namespace baton {
namespace {

constexpr LatentRowFormat kLatentFormats[] = {
    LatentRowFormat::kF32, LatentRowFormat::kBF16, LatentRowFormat::kFp8, LatentRowFormat::kNvfp4};
constexpr PlainRowFormat kPlainFormats[] = {PlainRowFormat::kF32, PlainRowFormat::kBF16};
constexpr IndexKeyFormat kIndexFormats[] = {
    IndexKeyFormat::kF32, IndexKeyFormat::kBF16, IndexKeyFormat::kFp8};

std::string row_name(const LatentRow& row) {
  constexpr const char* kNames[] = {"f32", "bf16", "fp8", "nvfp4"};
  return std::string(kNames[static_cast<int>(row.format)]) + "_" + std::to_string(row.latent) +
         "+" + std::to_string(row.rope);
}

std::string row_name(const PlainRow& row) {
  return std::string(row.format == PlainRowFormat::kF32 ? "f32" : "bf16") + "_kv" +
         std::to_string(row.kv_heads) + "x" + std::to_string(row.head_dim);
}

std::string page_name(const IndexPage& page) {
  constexpr const char* kNames[] = {"f32", "bf16", "fp8"};
  return std::string(kNames[static_cast<int>(page.format)]) + "_d" + std::to_string(page.dim);
}

// Fresh tokens around block borders, in two sequences.
const std::vector<SequenceShape> kStoreSequences = {
    {.context = 66, .fresh = 5}, {.context = 1, .fresh = 1}, {.context = 130, .fresh = 70}};

KernelCase store_latent_case(LatentRow row) {
  return {.name = "store_latent/" + row_name(row), .prepare = [row](CaseMemory& memory) {
            const CachedContext context = make_context(memory, kStoreSequences);
            const auto tokens = static_cast<int64_t>(context.positions.size());
            const int64_t payload = kBlockTokens * latent_row_bytes(row);
            const StoreLatentArgs args{
                .latent = memory.normal_input({tokens, row.latent}, {.rows = row.rope}),
                .rope = memory.normal_input({tokens, row.rope}, {.rows = row.latent}),
                .batch = *context.batch,
                .cache = {.blocks = memory.in_out_bytes(empty_blocks(context, payload)),
                          .block_stride = case_block_stride(payload),
                          .offset = kCaseOffset,
                          .row = row}};
            return KernelCall{
                .run = [args](const KernelTable& t, Queue& q) { t.store_latent(q, args); }};
          }};
}

KernelCase store_plain_case(PlainRow row) {
  return {.name = "store_plain/" + row_name(row), .prepare = [row](CaseMemory& memory) {
            const CachedContext context = make_context(memory, kStoreSequences);
            const auto tokens = static_cast<int64_t>(context.positions.size());
            const int64_t width = int64_t{row.kv_heads} * row.head_dim;
            const int64_t payload = kBlockTokens * plain_row_bytes(row);
            const StorePlainArgs args{
                .keys = memory.normal_input({tokens, width}, {.rows = width}),
                .values = memory.normal_input({tokens, width}, {.rows = 3}),
                .batch = *context.batch,
                .cache = {.blocks = memory.in_out_bytes(empty_blocks(context, payload)),
                          .block_stride = case_block_stride(payload),
                          .offset = kCaseOffset,
                          .row = row}};
            return KernelCall{
                .run = [args](const KernelTable& t, Queue& q) { t.store_plain(q, args); }};
          }};
}

KernelCase store_index_keys_case(IndexPage page) {
  return {.name = "store_index_keys/" + page_name(page), .prepare = [page](CaseMemory& memory) {
            const CachedContext context = make_context(memory, kStoreSequences);
            const auto tokens = static_cast<int64_t>(context.positions.size());
            const int64_t payload = index_page_bytes(page);
            const StoreIndexKeysArgs args{
                .keys = memory.normal_input({tokens, page.dim}),
                .batch = *context.batch,
                .cache = {.blocks = memory.in_out_bytes(empty_blocks(context, payload)),
                          .block_stride = case_block_stride(payload),
                          .offset = kCaseOffset,
                          .page = page}};
            return KernelCall{
                .run = [args](const KernelTable& t, Queue& q) { t.store_index_keys(q, args); }};
          }};
}

// A random ascending subset of the positions each token sees, always with its own position.
ConstTensor random_selection(CaseMemory& memory, const CachedContext& context, int64_t top_k) {
  std::vector<int32_t> selection;
  for (const int32_t position : context.positions) {
    const int64_t visible = position + 1;
    int64_t wanted = std::min(visible, top_k);
    int64_t left = visible;
    for (int32_t p = 0; p < visible; ++p, --left) {
      if (memory.uniform(1, left) > wanted) continue;
      selection.push_back(p);
      --wanted;
    }
    for (int64_t i = std::min(visible, top_k); i < top_k; ++i) selection.push_back(-1);
  }
  return memory.input(selection, {static_cast<int64_t>(context.positions.size()), top_k});
}

double rows_attended(const CachedContext& context, int64_t top_k) {
  double rows = 0.0;
  for (const int32_t position : context.positions) {
    rows += static_cast<double>(top_k > 0 ? std::min<int64_t>(position + 1, top_k) : position + 1);
  }
  return rows;
}

}  // namespace

KernelCases store_cases() {
  KernelCases cases;
  for (const LatentRowFormat format : kLatentFormats) {
    cases.push_back(store_latent_case({.format = format, .latent = 512, .rope = 64}));
    cases.push_back(store_latent_case({.format = format, .latent = 32, .rope = 8}));
    cases.push_back(store_latent_case({.format = format, .latent = 144, .rope = 16}));
  }
  for (const PlainRowFormat format : kPlainFormats) {
    cases.push_back(store_plain_case({.format = format, .kv_heads = 2, .head_dim = 16}));
    cases.push_back(store_plain_case({.format = format, .kv_heads = 8, .head_dim = 128}));
  }
  for (const IndexKeyFormat format : kIndexFormats) {
    cases.push_back(store_index_keys_case({.format = format, .dim = 128}));
    cases.push_back(store_index_keys_case({.format = format, .dim = 16}));
  }
  return cases;
}

KernelCase mla_attention_case(const MlaShape& s) {
  return {.name = "mla_attention/" + row_name(s.row) + "_h" + std::to_string(s.heads) +
                  sequences_name(s.sequences) +
                  (s.top_k > 0 ? "_top" + std::to_string(s.top_k) : ""),
          .prepare =
              [s](CaseMemory& memory) {
                const CachedContext context = make_context(memory, s.sequences);
                const auto tokens = static_cast<int64_t>(context.positions.size());
                const auto scale =
                    static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.row.latent)));
                const MlaAttentionArgs args{
                    .q_latent = memory.normal_input({tokens, s.heads, s.row.latent}),
                    .q_rope = memory.normal_input({tokens, s.heads, s.row.rope}, s.q_rope_gaps),
                    .batch = *context.batch,
                    .cache = filled_latent_cache(memory, context, s.sequences, s.row),
                    .selection =
                        s.top_k > 0 ? random_selection(memory, context, s.top_k) : ConstTensor(),
                    .scale = 2.0F * scale,
                    .out = memory.output(DType::kF32, {tokens, s.heads, s.row.latent})};
                const double rows = rows_attended(context, s.top_k);
                return KernelCall{
                    .run = [args](const KernelTable& t, Queue& q) { t.mla_attention(q, args); },
                    .bytes = rows * static_cast<double>(latent_row_bytes(s.row)),
                    .operations = rows * static_cast<double>(s.heads) *
                                  static_cast<double>(4 * s.row.latent + 2 * s.row.rope)};
              },
          .tolerance = 5e-6};
}

KernelCases mla_attention_cases() {
  KernelCases cases;
  for (const LatentRowFormat format : kLatentFormats) {
    const LatentRow small{.format = format, .latent = 32, .rope = 8};
    const LatentRow odd{.format = format, .latent = 144, .rope = 24};
    const LatentRow real{.format = format, .latent = 512, .rope = 64};
    for (const int64_t context : {1, 2, 63, 64, 65, 129, 300}) {
      cases.push_back(
          mla_attention_case({.row = small, .heads = 4, .sequences = {{.context = context}}}));
      cases.push_back(mla_attention_case(
          {.row = small, .heads = 4, .sequences = {{.context = context}}, .top_k = 40}));
    }
    for (const int64_t top_k : {0, 20}) {
      cases.push_back(mla_attention_case({.row = odd,
                                          .heads = 5,
                                          .sequences = {{70, 9}, {1, 1}, {200, 3}},
                                          .top_k = top_k,
                                          .q_rope_gaps = {.rows = 3, .heads = 192}}));
      cases.push_back(mla_attention_case({.row = real,
                                          .heads = 17,
                                          .sequences = {{150, 40}, {66, 1}},
                                          .top_k = top_k,
                                          .q_rope_gaps = {.rows = 0, .heads = 192}}));
    }
  }
  return cases;
}

KernelCase gqa_attention_case(const GqaShape& s) {
  return {.name = "gqa_attention/" + row_name(s.row) + "_h" + std::to_string(s.heads) +
                  sequences_name(s.sequences),
          .prepare =
              [s](CaseMemory& memory) {
                const CachedContext context = make_context(memory, s.sequences);
                const auto tokens = static_cast<int64_t>(context.positions.size());
                const auto scale =
                    static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.row.head_dim)));
                const GqaAttentionArgs args{
                    .q = memory.normal_input({tokens, s.heads, s.row.head_dim}, s.q_gaps),
                    .batch = *context.batch,
                    .cache = filled_plain_cache(memory, context, s.sequences, s.row),
                    .scale = 2.0F * scale,
                    .out = memory.output(DType::kF32, {tokens, s.heads, s.row.head_dim})};
                const double rows = rows_attended(context, 0);
                return KernelCall{
                    .run = [args](const KernelTable& t, Queue& q) { t.gqa_attention(q, args); },
                    .bytes = rows * static_cast<double>(plain_row_bytes(s.row)),
                    .operations = rows * static_cast<double>(s.heads) *
                                  static_cast<double>(4 * s.row.head_dim)};
              },
          .tolerance = 5e-6};
}

KernelCases gqa_attention_cases() {
  KernelCases cases;
  for (const PlainRowFormat format : kPlainFormats) {
    for (const int64_t context : {1, 63, 64, 65, 200}) {
      cases.push_back(gqa_attention_case({.row = {.format = format, .kv_heads = 2, .head_dim = 16},
                                          .heads = 4,
                                          .sequences = {{.context = context}}}));
    }
    cases.push_back(gqa_attention_case({.row = {.format = format, .kv_heads = 2, .head_dim = 128},
                                        .heads = 16,
                                        .sequences = {{90, 30}, {1, 1}, {130, 2}},
                                        .q_gaps = {.rows = 512}}));
    cases.push_back(gqa_attention_case({.row = {.format = format, .kv_heads = 3, .head_dim = 20},
                                        .heads = 3,
                                        .sequences = {{70, 70}}}));
  }
  return cases;
}

KernelCase index_scores_case(const IndexShape& s) {
  return {.name = "index_scores/" + page_name(s.page) + "_h" + std::to_string(s.heads) +
                  sequences_name(s.sequences) + "_first" + std::to_string(s.first_token),
          .prepare =
              [s](CaseMemory& memory) {
                const CachedContext context = make_context(memory, s.sequences);
                const auto tokens = static_cast<int64_t>(context.positions.size());
                const int64_t count = tokens - s.first_token;
                const IndexScoresArgs args{
                    .q = memory.normal_input({tokens, s.heads, s.page.dim}),
                    .head_weights = memory.normal_input({tokens, s.heads}),
                    .batch = *context.batch,
                    .cache = filled_index_cache(memory, context, s.sequences, s.page, false),
                    .scale = 1.0F / 64.0F,
                    .first_token = s.first_token,
                    // Wider than the longest context: workspaces are sized for more.
                    .scores = memory.output(DType::kF32, {count, context.batch->max_context + 9})};
                const double rows = rows_attended(context, 0);
                return KernelCall{
                    .run = [args](const KernelTable& t, Queue& q) { t.index_scores(q, args); },
                    .bytes = rows * static_cast<double>(index_page_bytes(s.page)) / kBlockTokens,
                    .operations =
                        rows * static_cast<double>(s.heads) * static_cast<double>(2 * s.page.dim)};
              },
          .tolerance = 5e-6};
}

KernelCases index_scores_cases() {
  KernelCases cases;
  for (const IndexKeyFormat format : kIndexFormats) {
    const IndexPage small{.format = format, .dim = 16};
    const IndexPage real{.format = format, .dim = 128};
    for (const int64_t context : {1, 63, 64, 65, 300}) {
      cases.push_back(
          index_scores_case({.page = small, .heads = 4, .sequences = {{.context = context}}}));
    }
    for (const int64_t first : {0, 2}) {
      cases.push_back(index_scores_case({.page = real,
                                         .heads = 32,
                                         .sequences = {{80, 20}, {1, 1}, {130, 3}},
                                         .first_token = first}));
    }
    cases.push_back(index_scores_case(
        {.page = {.format = format, .dim = 36}, .heads = 3, .sequences = {{70, 70}}}));
  }
  return cases;
}

// Small integers make every score exact, so that every table must select the same, ties
// included.
KernelCase index_select_case(const IndexShape& s) {
  return {.name = "index_select/" + page_name(s.page) + "_h" + std::to_string(s.heads) +
                  sequences_name(s.sequences) + "_top" + std::to_string(s.top_k) + "_group" +
                  std::to_string(s.group),
          .prepare = [s](CaseMemory& memory) {
            const CachedContext context = make_context(memory, s.sequences);
            const auto tokens = static_cast<int64_t>(context.positions.size());
            const IndexSelectArgs args{
                .q = memory.input(memory.small_integers(tokens * s.heads * s.page.dim, -2, 2),
                                  {tokens, s.heads, s.page.dim}),
                .head_weights =
                    memory.input(memory.small_integers(tokens * s.heads, -2, 3), {tokens, s.heads}),
                .batch = *context.batch,
                .cache = filled_index_cache(memory, context, s.sequences, s.page, true),
                .scale = 1.0F / 64.0F,
                .scores = memory.workspace({s.group, context.batch->max_context}),
                .selection = memory.output(DType::kI32, {tokens, s.top_k})};
            const double rows = rows_attended(context, 0);
            return KernelCall{
                .run = [args](const KernelTable& t, Queue& q) { t.index_select(q, args); },
                .bytes = rows * static_cast<double>(index_page_bytes(s.page)) / kBlockTokens,
                .operations =
                    rows * static_cast<double>(s.heads) * static_cast<double>(2 * s.page.dim)};
          }};
}

KernelCases index_select_cases() {
  KernelCases cases;
  for (const IndexKeyFormat format : kIndexFormats) {
    for (const int64_t group : {1, 3, 50}) {
      cases.push_back(index_select_case({.page = {.format = format, .dim = 16},
                                         .heads = 4,
                                         .sequences = {{40, 20}, {1, 1}, {150, 2}},
                                         .top_k = 8,
                                         .group = group}));
    }
    cases.push_back(index_select_case({.page = {.format = format, .dim = 128},
                                       .heads = 32,
                                       .sequences = {{300, 4}},
                                       .top_k = 64,
                                       .group = 4}));
  }
  return cases;
}

}  // namespace baton
