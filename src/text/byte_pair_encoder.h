// Byte pair encoding of one pre-token: the lowest-ranked adjacent pair is merged until none is
// left; of equal pairs the leftmost goes first (Sennrich et al. 2016, as Hugging Face's BPE).
// Short pieces are scanned; long ones use a heap, so a run of n bytes costs n log n.
// Immutable after construction; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/flat_tables.h"

namespace baton {

class BytePairEncoder {
 public:
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t result;
  };

  // `tokens`: raw bytes by id. `merges`: in order of rank. `byte_tokens`: the id of each single
  // byte. `whole_tokens`: ids that may stand for a whole piece; without `ignore_merges` only
  // those are kept that merging would reach as well, which changes nothing but the speed.
  BytePairEncoder(std::span<const std::string> tokens,
                  std::span<const Merge> merges,
                  std::span<const int32_t, 256> byte_tokens,
                  std::span<const int32_t> whole_tokens,
                  bool ignore_merges);

  // The id that stands for the whole piece without further work; -1 if merging has to find out.
  int32_t find_whole(std::string_view piece) const { return whole_tokens_.find(piece); }

  // Appends the ids of `piece` (any bytes, at least one) by merging.
  void merge(std::string_view piece, std::vector<int32_t>& out) const;

 private:
  // A possible merge: rank in the high half, resulting id in the low half; kNoMerge if none.
  using Candidate = uint64_t;

  Candidate candidate(int32_t left, int32_t right) const { return merges_.find(left, right); }
  Candidate byte_candidate(char left, char right) const;
  void merge_short(std::string_view piece, std::vector<int32_t>& out) const;
  void merge_long(std::string_view piece, std::vector<int32_t>& out) const;

  int32_t byte_tokens_[256];
  std::vector<Candidate> byte_merges_;  // [256 * 256]: the first round, without hashing
  PairTable merges_;
  TokenTable whole_tokens_;
};

}  // namespace baton
