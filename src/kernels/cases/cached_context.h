// Batches and filled KV caches for cases: blocks in shuffled order, tables padded with -1, and
// 0xff (NaN in every form) wherever no visible row lies, so that a read of the wrong place or
// a multiplication of an unwritten row by zero shows.
#pragma once

#include "kernels/cases/cases.h"

namespace baton {

struct CachedContext {
  const BatchLayout* batch = nullptr;
  std::vector<int32_t> positions;            // host copy, [tokens]
  std::vector<int32_t> sequence_of;          // host copy, [tokens]
  std::vector<std::vector<int32_t>> tables;  // host copy, blocks per sequence
  int64_t block_count = 0;
};

CachedContext make_context(CaseMemory& memory, const std::vector<SequenceShape>& sequences);

// Where things lie in the cases' blocks: an odd offset and padding between blocks.
constexpr int64_t kCaseOffset = 48;
inline int64_t case_block_stride(int64_t payload) {
  return kCaseOffset + payload + 80;
}

// Empty (all 0xff) pool of blocks; `payload` bytes each.
std::vector<uint8_t> empty_blocks(const CachedContext& context, int64_t payload);

// Pools with the rows of all positions of every sequence that come before `context`, random.
LatentCache filled_latent_cache(CaseMemory& memory,
                                const CachedContext& context,
                                const std::vector<SequenceShape>& sequences,
                                LatentRow row);
PlainCache filled_plain_cache(CaseMemory& memory,
                              const CachedContext& context,
                              const std::vector<SequenceShape>& sequences,
                              PlainRow row);
// integers: keys of small integers, for selections that every table must agree on.
IndexCache filled_index_cache(CaseMemory& memory,
                              const CachedContext& context,
                              const std::vector<SequenceShape>& sequences,
                              IndexPage page,
                              bool integers);

// "c200+3_c64" for names.
std::string sequences_name(const std::vector<SequenceShape>& sequences);

}  // namespace baton
