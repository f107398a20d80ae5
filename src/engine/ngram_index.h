// Where the last tokens of a sequence stood before: prompt lookup. Every run of `shortest` tokens
// is in a table under the place behind its last occurrence, and every place names the one before
// it, so a step costs what is new and a few comparisons, however long the context. About 16 bytes
// a token. Owned by the request's DraftState; engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"

namespace baton {

class NgramIndex {
 public:
  // 1 <= shortest <= longest.
  NgramIndex(int32_t shortest, int32_t longest)
      : shortest_(shortest), longest_(longest), seed_(random_seed()) {}

  // Takes in the tokens that are new since the last call. `tokens` only grows between calls.
  // A very long beginning is taken in over several calls.
  void extend(std::span<const int32_t> tokens);

  // Appends `count` tokens: those that followed the longest run, of `shortest` to `longest`
  // tokens, that ends `tokens` and stood before; the last such place if there are several. What
  // overlaps the end goes on with itself. Nothing if no run stood before, or extend() lags.
  void continuation(std::span<const int32_t> tokens,
                    int32_t count,
                    std::vector<int32_t>& out) const;

 private:
  // A place is the index of the token behind a run; 0 is none.
  size_t slot_of(std::span<const int32_t> tokens, int32_t place) const;
  void insert(std::span<const int32_t> tokens, int32_t place);
  void make_room(std::span<const int32_t> tokens);
  int32_t common(std::span<const int32_t> tokens, int32_t place) const;
  int32_t best_place(std::span<const int32_t> tokens) const;

  int32_t shortest_, longest_;
  uint64_t seed_;                  // no prompt can be made to collide
  std::vector<int32_t> table_;     // open addressing, at most half full: last place of a run
  std::vector<int32_t> previous_;  // by place: the place of the same run before it
};

}  // namespace baton
