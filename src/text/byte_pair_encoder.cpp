#include "text/byte_pair_encoder.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace baton {
namespace {

constexpr uint64_t kNoMerge = PairTable::kNone;
// Up to here the quadratic scan of a few cache lines beats the heap.
constexpr size_t kShortBytes = 64;

int32_t result_of(uint64_t candidate) {
  return static_cast<int32_t>(candidate & 0xFFFFFFFFU);
}

// A heap entry; the comparison makes std::push_heap keep the lowest rank, then the leftmost.
struct Entry {
  uint64_t candidate;
  uint32_t position;
  bool operator<(const Entry& other) const {
    return candidate != other.candidate ? candidate > other.candidate : position > other.position;
  }
};

}  // namespace

BytePairEncoder::BytePairEncoder(std::span<const std::string> tokens,
                                 std::span<const Merge> merges,
                                 std::span<const int32_t, 256> byte_tokens,
                                 std::span<const int32_t> whole_tokens,
                                 bool ignore_merges) {
  std::copy(byte_tokens.begin(), byte_tokens.end(), byte_tokens_);
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& m = merges[rank];
    merges_.insert(m.left, m.right, (rank << 32U) | static_cast<uint32_t>(m.result));
  }
  byte_merges_.resize(size_t{256} * 256);
  for (size_t i = 0; i < byte_merges_.size(); ++i) {
    byte_merges_[i] = candidate(byte_tokens_[i / 256], byte_tokens_[i % 256]);
  }
  std::vector<int32_t> reachable;
  std::vector<int32_t> ids;
  for (const int32_t id : whole_tokens) {
    const std::string& bytes = tokens[static_cast<size_t>(id)];
    if (bytes.empty()) continue;
    if (!ignore_merges) {
      ids.clear();
      merge(bytes, ids);
      if (ids.size() != 1 || ids[0] != id) continue;
    }
    reachable.push_back(id);
  }
  whole_tokens_ = TokenTable(tokens, reachable);
}

BytePairEncoder::Candidate BytePairEncoder::byte_candidate(char left, char right) const {
  return byte_merges_[static_cast<uint8_t>(left) * size_t{256} + static_cast<uint8_t>(right)];
}

void BytePairEncoder::merge(std::string_view piece, std::vector<int32_t>& out) const {
  if (piece.size() <= kShortBytes) {
    merge_short(piece, out);
  } else {
    merge_long(piece, out);
  }
}

void BytePairEncoder::merge_short(std::string_view piece, std::vector<int32_t>& out) const {
  std::array<int32_t, kShortBytes> ids;       // [count]
  std::array<Candidate, kShortBytes> merges;  // [count - 1]: of symbol i with i + 1
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) ids[i] = byte_tokens_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = byte_candidate(piece[i], piece[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i] < merges[best]) best = i;
    }
    if (merges[best] == kNoMerge) break;
    ids[best] = result_of(merges[best]);
    --count;
    for (size_t i = best + 1; i < count; ++i) ids[i] = ids[i + 1];
    for (size_t i = best + 1; i + 1 < count; ++i) merges[i] = merges[i + 1];
    if (best > 0) merges[best - 1] = candidate(ids[best - 1], ids[best]);
    if (best + 1 < count) merges[best] = candidate(ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count));
}

// Symbols are a doubly linked list over byte positions. An entry of the heap is stale when the
// pair at its position has changed since; those are skipped.
void BytePairEncoder::merge_long(std::string_view piece, std::vector<int32_t>& out) const {
  BATON_CHECK(piece.size() < (uint64_t{1} << 32U), piece.size());
  const auto count = static_cast<uint32_t>(piece.size());
  struct Symbol {
    Candidate merge;  // with the next symbol; kNoMerge also marks a symbol that is gone
    int32_t id;
    uint32_t previous;  // own position at the left end
    uint32_t next;      // `count` at the right end
  };
  std::vector<Symbol> symbols(count);
  std::vector<Entry> heap;
  for (uint32_t i = 0; i < count; ++i) {
    const Candidate merge =
        i + 1 < count ? byte_candidate(piece[i], piece[i + 1]) : Candidate{kNoMerge};
    symbols[i] = {merge, byte_tokens_[static_cast<uint8_t>(piece[i])], i == 0 ? 0 : i - 1, i + 1};
    if (merge != kNoMerge) heap.push_back({merge, i});
  }
  std::make_heap(heap.begin(), heap.end());
  const auto refresh = [&](uint32_t i) {
    Symbol& symbol = symbols[i];
    symbol.merge =
        symbol.next < count ? candidate(symbol.id, symbols[symbol.next].id) : Candidate{kNoMerge};
    if (symbol.merge == kNoMerge) return;
    heap.push_back({symbol.merge, i});
    std::push_heap(heap.begin(), heap.end());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Entry entry = heap.back();
    heap.pop_back();
    Symbol& symbol = symbols[entry.position];
    if (symbol.merge != entry.candidate) continue;
    Symbol& gone = symbols[symbol.next];
    symbol.id = result_of(entry.candidate);
    symbol.next = gone.next;
    gone.merge = kNoMerge;
    if (symbol.next < count) symbols[symbol.next].previous = entry.position;
    refresh(entry.position);
    if (entry.position > 0) refresh(symbol.previous);
  }
  for (uint32_t i = 0; i < count; i = symbols[i].next) out.push_back(symbols[i].id);
}

}  // namespace baton
