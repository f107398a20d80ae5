#include "kernels/cases/cached_context.h"

#include <algorithm>
#include <numeric>

namespace baton {
namespace {

int64_t blocks_for(int64_t tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

uint8_t* place(std::vector<uint8_t>& pool,
               const CachedContext& context,
               size_t sequence,
               int64_t position,
               int64_t payload) {
  const int32_t block = context.tables[sequence][static_cast<size_t>(position / kBlockTokens)];
  return pool.data() + block * case_block_stride(payload) + kCaseOffset;
}

}  // namespace

CachedContext make_context(CaseMemory& memory, const std::vector<SequenceShape>& sequences) {
  CachedContext context;
  int64_t longest = 1;
  for (const SequenceShape& s : sequences) {
    context.block_count += blocks_for(s.context);
    longest = std::max(longest, s.context);
  }
  context.block_count += 1;  // one block that nobody owns
  std::vector<int32_t> order(static_cast<size_t>(context.block_count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), memory.random());

  const int64_t columns = blocks_for(longest) + 2;
  std::vector<int32_t> table(sequences.size() * static_cast<size_t>(columns), -1);
  size_t next = 0;
  for (size_t s = 0; s < sequences.size(); ++s) {
    std::vector<int32_t>& own = context.tables.emplace_back();
    for (int64_t b = 0; b < blocks_for(sequences[s].context); ++b) own.push_back(order[next++]);
    std::copy(own.begin(), own.end(), table.begin() + static_cast<int64_t>(s) * columns);
    for (int64_t i = sequences[s].context - sequences[s].fresh; i < sequences[s].context; ++i) {
      context.positions.push_back(static_cast<int32_t>(i));
      context.sequence_of.push_back(static_cast<int32_t>(s));
    }
  }
  const auto tokens = static_cast<int64_t>(context.positions.size());
  BatchLayout layout{
      .positions = memory.input(context.positions, {tokens}),
      .sequence_of = memory.input(context.sequence_of, {tokens}),
      .block_table = memory.input(table, {static_cast<int64_t>(sequences.size()), columns}),
      .max_context = static_cast<int32_t>(longest)};
  context.batch = &memory.keep(layout);
  return context;
}

std::vector<uint8_t> empty_blocks(const CachedContext& context, int64_t payload) {
  return std::vector<uint8_t>(static_cast<size_t>(context.block_count * case_block_stride(payload)),
                              0xff);
}

LatentCache filled_latent_cache(CaseMemory& memory,
                                const CachedContext& context,
                                const std::vector<SequenceShape>& sequences,
                                LatentRow row) {
  const int64_t row_bytes = latent_row_bytes(row);
  const int64_t payload = kBlockTokens * row_bytes;
  std::vector<uint8_t> pool = empty_blocks(context, payload);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int64_t p = 0; p < sequences[s].context; ++p) {
      const std::vector<float> latent = memory.normals(row.latent);
      const std::vector<float> rope = memory.normals(row.rope);
      encode_latent_row(row,
                        latent.data(),
                        rope.data(),
                        place(pool, context, s, p, payload) + p % kBlockTokens * row_bytes);
    }
  }
  return {.blocks = static_cast<uint8_t*>(memory.upload(pool.data(), pool.size())),
          .block_stride = case_block_stride(payload),
          .offset = kCaseOffset,
          .row = row};
}

PlainCache filled_plain_cache(CaseMemory& memory,
                              const CachedContext& context,
                              const std::vector<SequenceShape>& sequences,
                              PlainRow row) {
  const int64_t row_bytes = plain_row_bytes(row);
  const int64_t payload = kBlockTokens * row_bytes;
  const int64_t values = int64_t{2} * row.kv_heads * row.head_dim;
  std::vector<uint8_t> pool = empty_blocks(context, payload);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int64_t p = 0; p < sequences[s].context; ++p) {
      uint8_t* data = place(pool, context, s, p, payload) + p % kBlockTokens * row_bytes;
      for (int64_t i = 0; i < values; ++i) store_plain_value(row, data, i, memory.normal());
    }
  }
  return {.blocks = static_cast<uint8_t*>(memory.upload(pool.data(), pool.size())),
          .block_stride = case_block_stride(payload),
          .offset = kCaseOffset,
          .row = row};
}

IndexCache filled_index_cache(CaseMemory& memory,
                              const CachedContext& context,
                              const std::vector<SequenceShape>& sequences,
                              IndexPage page,
                              bool integers) {
  const int64_t payload = index_page_bytes(page);
  std::vector<uint8_t> pool = empty_blocks(context, payload);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int64_t p = 0; p < sequences[s].context; ++p) {
      const std::vector<float> key =
          integers ? memory.small_integers(page.dim, -2, 2) : memory.normals(page.dim);
      encode_index_key(page,
                       key.data(),
                       place(pool, context, s, p, payload),
                       static_cast<int32_t>(p % kBlockTokens));
    }
  }
  return {.blocks = static_cast<uint8_t*>(memory.upload(pool.data(), pool.size())),
          .block_stride = case_block_stride(payload),
          .offset = kCaseOffset,
          .page = page};
}

std::string sequences_name(const std::vector<SequenceShape>& sequences) {
  std::string name;
  for (const SequenceShape& s : sequences) {
    name.append("_c").append(std::to_string(s.context));
    if (s.fresh != 1) name.append("x").append(std::to_string(s.fresh));
  }
  return name;
}

}  // namespace baton
