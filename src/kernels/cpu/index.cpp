#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.h"
#include "kernels/reference/cache_rows.h"
#include "kernels/score_order.h"

namespace baton::cpu {
namespace {

constexpr int64_t kTokensPerItem = 32;  // share one expanded page
constexpr int64_t kPagesPerItem = 8;

// Rows [first, last) of the scores, all of one sequence, and pages [page, page + count).
struct Item {
  int64_t first, last;
  int64_t page, pages;
};

int64_t visible_of(const BatchLayout& batch, int64_t token) {
  return batch.positions.as<int32_t>()[token] + 1;
}

// to: [64, padded(dim)]
void expand_page(const Microkernels& kernels,
                 const IndexPage& page,
                 const uint8_t* data,
                 float* to) {
  const int64_t stride = padded(page.dim);
  for (int64_t slot = 0; slot < kBlockTokens; ++slot) {
    const int64_t at = slot * page.dim;
    float* out = to + slot * stride;
    switch (page.format) {
      case IndexKeyFormat::kF32:
        kernels.widen(data + 4 * at, DType::kF32, page.dim, 1.0F, out);
        break;
      case IndexKeyFormat::kBF16:
        kernels.widen(data + 2 * at, DType::kBF16, page.dim, 1.0F, out);
        break;
      case IndexKeyFormat::kFp8:
        kernels.widen(data + at,
                      DType::kF8E4M3,
                      page.dim,
                      load_f32(data + int64_t{kBlockTokens} * page.dim + 4 * slot),
                      out);
        break;
    }
  }
}

std::pmr::vector<Item> make_items(const IndexScoresArgs& args, const OpCall& call) {
  auto items = call.list<Item>();
  const int64_t end = args.first_token + args.scores.dim(0);
  for (int64_t t = args.first_token; t < end;) {
    const int64_t last = group_end(args.batch, t, end, kTokensPerItem);
    int64_t longest = 0;
    for (int64_t i = t; i < last; ++i) longest = std::max(longest, visible_of(args.batch, i));
    const int64_t pages = (longest + kBlockTokens - 1) / kBlockTokens;
    for (int64_t p = 0; p < pages; p += kPagesPerItem) {
      items.push_back({t, last, p, std::min(kPagesPerItem, pages - p)});
    }
    t = last;
  }
  return items;
}

void run(const Microkernels& kernels,
         const IndexScoresArgs& args,
         const Item& item,
         float* scratch) {
  const IndexPage& page = args.cache.page;
  float* keys = scratch;                                       // [64, padded(dim)]
  float* transposed = keys + kBlockTokens * padded(page.dim);  // [padded(dim), 64]
  float* tile = transposed + kBlockTokens * padded(page.dim);  // [64]
  for (int64_t p = item.page; p < item.page + item.pages; ++p) {
    const int64_t first = p * kBlockTokens;
    expand_page(
        kernels, page, reference::block_of(args.cache, args.batch, item.first, first), keys);
    kernels.transpose_64(keys, padded(page.dim), padded(page.dim), transposed);
    for (int64_t t = item.first; t < item.last; ++t) {
      const int64_t count = std::min<int64_t>(kBlockTokens, visible_of(args.batch, t) - first);
      if (count <= 0) continue;
      kernels.index_tile(
          {args.q.as<float>() + t * args.q.stride(0), args.q.stride(1), args.q.dim(1)},
          args.head_weights.as<float>() + t * args.head_weights.stride(0),
          transposed,
          page.dim,
          args.scale,
          tile);
      std::copy_n(tile,
                  count,
                  args.scores.as<float>() + (t - args.first_token) * args.scores.stride(0) + first);
    }
  }
}

}  // namespace

void index_scores(const Microkernels& kernels, Queue& queue, const IndexScoresArgs& args) {
  const IndexPage& page = args.cache.page;
  BATON_CHECK(args.q.dim(2) == page.dim, args.q.dim(2), page.dim);
  const int64_t width = args.scores.dim(1);
  for (int64_t r = 0; r < args.scores.dim(0); ++r) {
    const int64_t visible = visible_of(args.batch, args.first_token + r);
    BATON_CHECK(visible <= width, visible, width);
    float* row = args.scores.as<float>() + r * args.scores.stride(0);
    std::fill(row + visible, row + width, -INFINITY);
  }
  const OpCall call(queue);
  const WorkerScratch scratch(call, 2 * kBlockTokens * padded(page.dim) + kBlockTokens);
  const std::pmr::vector<Item> items = make_items(args, call);
  const auto count = static_cast<int64_t>(items.size());
  call.threads().parallel_for(
      count, grain_for(count, 4000.0), [&](int64_t begin, int64_t end, int worker) {
        for (int64_t i = begin; i < end; ++i) {
          run(kernels, args, items[static_cast<size_t>(i)], scratch.of(worker));
        }
      });
}

namespace {

// Smallest key that is among the `wanted` largest of keys[n], and how many of its equals
// belong to them: three rounds of counting, 11 + 11 + 10 bits.
struct Threshold {
  uint32_t key;
  int64_t equals;
};

// candidates: workspace [n]. After the first round only the keys of one digit are left.
Threshold find_threshold(const uint32_t* keys, int64_t n, int64_t wanted, uint32_t* candidates) {
  constexpr int kShifts[] = {21, 10, 0};
  constexpr uint32_t kMasks[] = {0x7ff, 0x7ff, 0x3ff};
  uint32_t prefix = 0;
  int32_t counts[2048];
  for (int round = 0; round < 3; ++round) {
    std::fill(std::begin(counts), std::end(counts), 0);
    for (int64_t i = 0; i < n; ++i) ++counts[(keys[i] >> kShifts[round]) & kMasks[round]];
    uint32_t digit = kMasks[round];
    while (counts[digit] < wanted) wanted -= counts[digit--];
    prefix |= digit << kShifts[round];
    int64_t left = 0;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t key = keys[i];
      candidates[left] = key;  // overwritten unless it stays; left <= i, so in place is fine
      left += ((key >> kShifts[round]) & kMasks[round]) == digit ? 1 : 0;
    }
    keys = candidates;
    n = left;
  }
  return {prefix, wanted};
}

// keys: workspace [2 * visible]
void select_row(const float* scores, int64_t visible, int64_t top_k, uint32_t* keys, int32_t* out) {
  int64_t next = 0;
  if (visible <= top_k) {
    for (; next < visible; ++next) out[next] = static_cast<int32_t>(next);
  } else {
    for (int64_t i = 0; i < visible; ++i) keys[i] = score_key(scores[i]);
    Threshold threshold = find_threshold(keys, visible, top_k, keys + visible);
    for (int64_t i = 0; i < visible; ++i) {
      if (keys[i] < threshold.key) continue;
      if (keys[i] == threshold.key && threshold.equals-- <= 0) continue;
      out[next++] = static_cast<int32_t>(i);
    }
  }
  std::fill(out + next, out + top_k, -1);
}

}  // namespace

void select_top_k(const Microkernels&, Queue& queue, const SelectTopKArgs& args) {
  const OpCall call(queue);
  const int64_t count = args.selection.dim(0);
  int64_t longest = 0;
  for (int64_t r = 0; r < count; ++r) {
    longest = std::max(longest, visible_of(args.batch, args.first_token + r));
  }
  BATON_CHECK(longest <= args.scores.dim(1), longest, args.scores.dim(1));
  const WorkerScratch scratch(call, 2 * longest);
  call.threads().parallel_for(count,
                              grain_for(count, 3.0 * static_cast<double>(longest)),
                              [&](int64_t begin, int64_t end, int worker) {
                                auto* keys = reinterpret_cast<uint32_t*>(scratch.of(worker));
                                for (int64_t r = begin; r < end; ++r) {
                                  select_row(
                                      args.scores.as<float>() + r * args.scores.stride(0),
                                      visible_of(args.batch, args.first_token + r),
                                      args.selection.dim(1),
                                      keys,
                                      args.selection.as<int32_t>() + r * args.selection.stride(0));
                                }
                              });
}

}  // namespace baton::cpu
