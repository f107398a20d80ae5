#include "engine/ngram_index.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"

namespace baton {
namespace {

// Tokens taken in by one call: about a millisecond. A step must not wait for a long prompt.
constexpr size_t kTokensPerCall = 16384;
// Places compared for one continuation. A run that stood more often than this is taken from its
// last places.
constexpr int kPlacesCompared = 64;

}  // namespace

// The slot of the run before `place`: where it is, or where it belongs.
size_t NgramIndex::slot_of(std::span<const int32_t> tokens, int32_t place) const {
  const auto length = static_cast<size_t>(shortest_);
  const auto run = tokens.subspan(static_cast<size_t>(place) - length, length);
  const size_t mask = table_.size() - 1;
  for (size_t slot = hash_tokens(seed_, run) & mask;; slot = (slot + 1) & mask) {
    if (table_[slot] == 0) return slot;
    const auto other = tokens.subspan(static_cast<size_t>(table_[slot]) - length, length);
    if (std::ranges::equal(run, other)) return slot;
  }
}

void NgramIndex::insert(std::span<const int32_t> tokens, int32_t place) {
  int32_t& last = table_[slot_of(tokens, place)];
  previous_[static_cast<size_t>(place)] = last;
  last = place;
}

void NgramIndex::make_room(std::span<const int32_t> tokens) {
  if (table_.size() >= 2 * tokens.size()) return;
  table_.assign(std::bit_ceil(4 * tokens.size()), 0);
  const auto known = static_cast<int32_t>(previous_.size());
  for (int32_t place = shortest_; place < known; ++place) insert(tokens, place);
}

void NgramIndex::extend(std::span<const int32_t> tokens) {
  make_room(tokens);
  // A run without a token behind it says nothing: the last one waits for the next call.
  const size_t until = std::min(tokens.size(), previous_.size() + kTokensPerCall);
  if (previous_.empty()) previous_.reserve(tokens.size());
  while (previous_.size() < until) {
    const auto place = static_cast<int32_t>(previous_.size());
    previous_.push_back(0);
    if (place >= shortest_) insert(tokens, place);
  }
}

// How many tokens before `place` equal those at the end, at most `longest`.
int32_t NgramIndex::common(std::span<const int32_t> tokens, int32_t place) const {
  const int32_t most = std::min(longest_, place);
  const auto end = tokens.size();
  int32_t length = 0;
  while (length < most && tokens[static_cast<size_t>(place - 1 - length)] ==
                              tokens[end - 1 - static_cast<size_t>(length)]) {
    ++length;
  }
  return length;
}

int32_t NgramIndex::best_place(std::span<const int32_t> tokens) const {
  int32_t best = 0, best_length = 0;
  int32_t place = table_[slot_of(tokens, static_cast<int32_t>(tokens.size()))];
  for (int i = 0; i < kPlacesCompared && place > 0 && best_length < longest_; ++i) {
    const int32_t length = common(tokens, place);
    if (length > best_length) {
      best_length = length;
      best = place;
    }
    place = previous_[static_cast<size_t>(place)];
  }
  return best;
}

void NgramIndex::continuation(std::span<const int32_t> tokens,
                              int32_t count,
                              std::vector<int32_t>& out) const {
  const bool is_current = previous_.size() == tokens.size();
  if (!is_current || tokens.size() <= static_cast<size_t>(shortest_)) return;
  const auto place = static_cast<size_t>(best_place(tokens));
  if (place == 0) return;
  const size_t first = out.size();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const size_t at = place + i;
    out.push_back(at < tokens.size() ? tokens[at] : out[first + at - tokens.size()]);
  }
}

}  // namespace baton
