#include <array>

#include "kernels/cpu/attention.h"
#include "kernels/reference/cache_rows.h"

namespace baton::cpu {
namespace {

constexpr int64_t kRowsPerItem = 32;

// Tokens [first, last) of one sequence, the query heads of one kv head.
struct Item {
  int64_t first, last;
  int64_t kv_head;
};

AttentionShape shape_of(const GqaAttentionArgs& args, const Item& item) {
  return {.tokens = item.last - item.first,
          .heads = args.q.dim(1) / args.cache.row.kv_heads,
          .key_width = args.cache.row.head_dim,
          .value_width = args.cache.row.head_dim,
          .shared = false};
}

void run(const Microkernels& kernels,
         const GqaAttentionArgs& args,
         const Item& item,
         float* scratch) {
  const PlainRow& row = args.cache.row;
  const AttentionShape shape = shape_of(args, item);
  const AttentionTiles tiles(shape, scratch);
  tiles.clear_padding(shape);
  const auto head = [&](int64_t r) { return item.kv_head * shape.heads + r % shape.heads; };
  const auto token = [&](int64_t r) { return item.first + r / shape.heads; };
  for (int64_t r = 0; r < shape.rows(); ++r) {
    const float* q = args.q.as<float>() + token(r) * args.q.stride(0) + head(r) * args.q.stride(1);
    std::copy_n(q, row.head_dim, tiles.queries.row(r));
  }
  std::array<int64_t, kRowsPerItem> counts{};
  for (int64_t t = item.first; t < item.last; ++t) {
    counts[static_cast<size_t>(t - item.first)] = args.batch.positions.as<int32_t>()[t] + 1;
  }
  const DType dtype = row.format == PlainRowFormat::kF32 ? DType::kF32 : DType::kBF16;
  const int64_t key = item.kv_head * row.head_dim * dtype_bytes(dtype);
  const int64_t value = key + int64_t{row.kv_heads} * row.head_dim * dtype_bytes(dtype);
  const auto fetch = [&](int64_t first, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
      const uint8_t* data = reference::row_of(args.cache, args.batch, item.first, first + j);
      kernels.widen(data + key, dtype, row.head_dim, 1.0F, tiles.keys.row(j));
      kernels.widen(data + value, dtype, row.head_dim, 1.0F, tiles.values.row(j));
    }
  };
  const auto tokens = static_cast<size_t>(shape.tokens);
  attend(kernels, shape, tiles, std::span(counts).first(tokens), args.scale, fetch);
  for (int64_t r = 0; r < shape.rows(); ++r) {
    write_row(shape,
              tiles,
              r,
              args.out.as<float>() + token(r) * args.out.stride(0) + head(r) * args.out.stride(1));
  }
}

}  // namespace

void gqa_attention(const Microkernels& kernels, Queue& queue, const GqaAttentionArgs& args) {
  const PlainRow& row = args.cache.row;
  BATON_CHECK(args.q.dim(2) == row.head_dim, args.q.dim(2));
  BATON_CHECK(args.q.dim(1) % row.kv_heads == 0, args.q.dim(1));
  const int64_t group = args.q.dim(1) / row.kv_heads;
  const int64_t tokens = args.q.dim(0);
  const OpCall call(queue);
  auto items = call.list<Item>(tokens * row.kv_heads);
  int64_t floats = 0;
  for (int64_t t = 0; t < tokens;) {
    const int64_t last =
        group_end(args.batch, t, tokens, std::max<int64_t>(1, kRowsPerItem / group));
    for (int64_t h = 0; h < row.kv_heads; ++h) items.push_back({t, last, h});
    floats = std::max(floats, AttentionTiles::floats(shape_of(args, items.back())));
    t = last;
  }
  const WorkerScratch scratch(call, floats);
  const auto count = static_cast<int64_t>(items.size());
  call.threads().parallel_for(
      count,
      grain_for(count, 10.0 * args.batch.max_context),
      [&](int64_t begin, int64_t end, int worker) {
        for (int64_t i = begin; i < end; ++i) {
          run(kernels, args, items[static_cast<size_t>(i)], scratch.of(worker));
        }
      });
}

}  // namespace baton::cpu
