#include <array>

#include "kernels/cpu/attention.h"
#include "kernels/reference/cache_rows.h"

namespace baton::cpu {
namespace {

void decode_fp8(const Microkernels& kernels,
                const LatentRow& row,
                const uint8_t* data,
                float* out) {
  const uint8_t* scales = data + fp8_scale_offset(row);
  const auto groups = static_cast<int32_t>(latent_row_scale_groups(row));
  for (int32_t g = 0; g < groups; ++g) {
    const int32_t first = g * kFp8ScaleGroup;
    kernels.widen(data + first,
                  DType::kF8E4M3,
                  std::min(kFp8ScaleGroup, row.latent - first),
                  load_f32(scales + 4 * g),
                  out + first);
  }
  kernels.widen(scales + 4 * groups, DType::kBF16, row.rope, 1.0F, out + row.latent);
}

void decode_nvfp4(const Microkernels& kernels,
                  const LatentRow& row,
                  const uint8_t* data,
                  float* out) {
  constexpr int32_t kMostGroups = 256;
  const int32_t groups = row.latent / kNvfp4ScaleGroup;
  BATON_CHECK(groups <= kMostGroups, row.latent);
  uint8_t scales[kMostGroups];  // in plain order
  for (int32_t g = 0; g < groups; ++g) scales[g] = data[nvfp4_scale_offset(row, g)];
  const WeightView view{
      .data = data, .scales = scales, .rows = 1, .columns = row.latent, .form = WeightForm::kNvfp4};
  kernels.expand(view, 0, 0, row.latent, out);
  kernels.widen(data + row.latent / 2, DType::kF8E4M3, row.rope, 1.0F, out + row.latent);
}

// out: [latent + rope]
void decode(const Microkernels& kernels, const LatentRow& row, const uint8_t* data, float* out) {
  switch (row.format) {
    case LatentRowFormat::kF32:
      return kernels.widen(data, DType::kF32, row.latent + row.rope, 1.0F, out);
    case LatentRowFormat::kBF16:
      return kernels.widen(data, DType::kBF16, row.latent + row.rope, 1.0F, out);
    case LatentRowFormat::kFp8:
      return decode_fp8(kernels, row, data, out);
    case LatentRowFormat::kNvfp4:
      return decode_nvfp4(kernels, row, data, out);
  }
}

// Chosen rows lie anywhere, so the processor cannot guess the next one. Decoding a row takes about
// 50 ns, reading one from memory a few times that.
// The tokens of a prompt choose much the same rows, which are in cache: there asking only costs.
constexpr int64_t kRowsAhead = 4;
constexpr int64_t kPromptTokens = 16;
void prefetch(const LatentCache& cache, const uint8_t* row) {
  for (int64_t i = 0; i < latent_row_bytes(cache.row); i += 64) __builtin_prefetch(row + i);
}

constexpr int64_t kRowsPerItem = 64;  // pairs of a token and a head

// Tokens [first, last) of one sequence, heads [first_head, first_head + heads).
struct Item {
  int64_t first, last;
  int64_t first_head, heads;
};

// With a selection every token has its own rows; without, neighbours share them.
std::pmr::vector<Item> make_items(const MlaAttentionArgs& args, const OpCall& call) {
  const int threads = call.threads().threads();
  const int64_t tokens = args.q_latent.dim(0);
  const int64_t heads = args.q_latent.dim(1);
  int64_t head_step = std::min<int64_t>(heads, 32);
  // A lone decode token is shared by heads, in fours: what a tile of the product takes at once.
  while (head_step > 4 && tokens * ((heads + head_step - 1) / head_step) < threads) head_step /= 2;
  const int64_t most = args.selection.empty() ? std::max<int64_t>(1, kRowsPerItem / head_step) : 1;
  auto items = call.list<Item>(tokens * ((heads + head_step - 1) / head_step));
  for (int64_t t = 0; t < tokens;) {
    const int64_t last = group_end(args.batch, t, tokens, most);
    for (int64_t h = 0; h < heads; h += head_step) {
      items.push_back({t, last, h, std::min(head_step, heads - h)});
    }
    t = last;
  }
  return items;
}

AttentionShape shape_of(const MlaAttentionArgs& args, const Item& item) {
  const LatentRow& row = args.cache.row;
  return {.tokens = item.last - item.first,
          .heads = item.heads,
          .key_width = row.latent + row.rope,
          .value_width = row.latent,
          .shared = true};
}

const float* head_of(const ConstTensor& x, int64_t t, int64_t h) {
  return x.as<float>() + t * x.stride(0) + h * x.stride(1);
}

void pack_queries(const MlaAttentionArgs& args, const Item& item, const Rows<float>& queries) {
  for (int64_t r = 0; r < queries.count; ++r) {
    const int64_t t = item.first + r / item.heads;
    const int64_t h = item.first_head + r % item.heads;
    float* to = queries.row(r);
    std::copy_n(head_of(args.q_latent, t, h), args.cache.row.latent, to);
    std::copy_n(head_of(args.q_rope, t, h), args.cache.row.rope, to + args.cache.row.latent);
  }
}

int64_t attended(const MlaAttentionArgs& args, int64_t t) {
  const int64_t visible = args.batch.positions.as<int32_t>()[t] + 1;
  if (args.selection.empty()) return visible;
  const int32_t* selection = args.selection.as<int32_t>() + t * args.selection.stride(0);
  const int64_t top_k = args.selection.dim(1);
  return std::find(selection, selection + top_k, -1) - selection;
}

void run(const Microkernels& kernels,
         const MlaAttentionArgs& args,
         const Item& item,
         float* scratch) {
  const AttentionShape shape = shape_of(args, item);
  const AttentionTiles tiles(shape, scratch);
  tiles.clear_padding(shape);
  pack_queries(args, item, tiles.queries);
  std::array<int64_t, kRowsPerItem> counts{};
  for (int64_t t = item.first; t < item.last; ++t) {
    counts[static_cast<size_t>(t - item.first)] = attended(args, t);
  }
  const int32_t* selection =
      args.selection.empty() ? nullptr
                             : args.selection.as<int32_t>() + item.first * args.selection.stride(0);
  const bool ask_ahead = args.q_latent.dim(0) < kPromptTokens;
  const auto fetch = [&](int64_t first, int64_t n) {
    const uint8_t* tile_rows[kTileKeys];
    for (int64_t j = 0; j < n; ++j) {
      const int64_t position = selection == nullptr ? first + j : selection[first + j];
      tile_rows[j] = reference::row_of(args.cache, args.batch, item.first, position);
      if (ask_ahead && j < kRowsAhead) prefetch(args.cache, tile_rows[j]);
    }
    for (int64_t j = 0; j < n; ++j) {
      if (ask_ahead && j + kRowsAhead < n) prefetch(args.cache, tile_rows[j + kRowsAhead]);
      decode(kernels, args.cache.row, tile_rows[j], tiles.keys.row(j));
    }
  };
  const auto tokens = static_cast<size_t>(shape.tokens);
  attend(kernels, shape, tiles, std::span(counts).first(tokens), args.scale, fetch);
  for (int64_t r = 0; r < shape.rows(); ++r) {
    const int64_t t = item.first + r / item.heads;
    const int64_t h = item.first_head + r % item.heads;
    write_row(
        shape, tiles, r, args.out.as<float>() + t * args.out.stride(0) + h * args.out.stride(1));
  }
}

}  // namespace

void mla_attention(const Microkernels& kernels, Queue& queue, const MlaAttentionArgs& args) {
  BATON_CHECK(args.q_latent.dim(2) == args.cache.row.latent, args.q_latent.dim(2));
  BATON_CHECK(args.q_rope.dim(2) == args.cache.row.rope, args.q_rope.dim(2));
  const OpCall call(queue);
  const std::pmr::vector<Item> items = make_items(args, call);
  if (items.empty()) return;
  int64_t floats = 0;
  for (const Item& item : items) {
    floats = std::max(floats, AttentionTiles::floats(shape_of(args, item)));
  }
  const WorkerScratch scratch(call, floats);
  const auto count = static_cast<int64_t>(items.size());
  const int64_t longest = args.selection.empty()
                              ? args.batch.max_context
                              : std::min<int64_t>(args.batch.max_context, args.selection.dim(1));
  // About 20 products per nanosecond, two per key value and head.
  const double cost = static_cast<double>(longest * items.front().heads *
                                          (args.cache.row.latent + args.cache.row.rope)) /
                      10.0;
  call.threads().parallel_for(
      count, grain_for(count, cost), [&](int64_t begin, int64_t end, int worker) {
        for (int64_t i = begin; i < end; ++i) {
          run(kernels, args, items[static_cast<size_t>(i)], scratch.of(worker));
        }
      });
}

}  // namespace baton::cpu
