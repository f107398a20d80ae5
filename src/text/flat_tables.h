// Two read-only hash tables of the tokenizer, open addressing with linear probing, at most half
// full: bytes -> token id, and pair of ids -> merge. Their contents come from the model's files,
// never from requests, so they need no secret seed.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

inline uint64_t hash_piece(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio
  uint64_t hash = bytes.size() * kMultiplier;
  while (bytes.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = std::rotl((hash ^ word) * kMultiplier, 29);
    bytes.remove_prefix(8);
  }
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  hash = (hash ^ word) * kMultiplier;
  return hash ^ (hash >> 32U);
}

class TokenTable {
 public:
  TokenTable() = default;

  // `tokens` (bytes by id) must outlive the table; `ids` are the entries. Of equal bytes the
  // first id wins.
  TokenTable(std::span<const std::string> tokens, std::span<const int32_t> ids) : tokens_(tokens) {
    slots_.resize(std::bit_ceil(ids.size() * 2 + 2));
    mask_ = slots_.size() - 1;
    for (const int32_t id : ids) insert(id);
  }

  // -1 if there is none.
  int32_t find(std::string_view bytes) const {
    if (slots_.empty()) return -1;
    const uint64_t hash = hash_piece(bytes);
    for (uint64_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.id < 0) return -1;
      if (slot.tag == tag(hash) && text(slot.id) == bytes) return slot.id;
    }
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = -1;
  };

  static uint32_t tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32U); }
  std::string_view text(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }

  void insert(int32_t id) {
    if (find(text(id)) >= 0) return;
    const uint64_t hash = hash_piece(text(id));
    uint64_t i = hash & mask_;
    while (slots_[i].id >= 0) i = (i + 1) & mask_;
    slots_[i] = {tag(hash), id};
  }

  std::span<const std::string> tokens_;
  std::vector<Slot> slots_;
  uint64_t mask_ = 0;
};

class PairTable {
 public:
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  void reserve(size_t pairs) {
    slots_.assign(std::bit_ceil(pairs * 2 + 2), Slot{});
    mask_ = slots_.size() - 1;
  }

  // The first value of a pair wins: its rank is the lower one. At most the reserved number.
  void insert(int32_t left, int32_t right, uint64_t value) {
    uint64_t i = start(key(left, right));
    while (slots_[i].value != kNone) {
      if (slots_[i].key == key(left, right)) return;
      i = (i + 1) & mask_;
    }
    slots_[i] = {key(left, right), value};
  }

  uint64_t find(int32_t left, int32_t right) const {
    const uint64_t wanted = key(left, right);
    for (uint64_t i = start(wanted);; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.value == kNone || slot.key == wanted) return slot.value;
    }
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint64_t value = kNone;
  };

  static uint64_t key(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32U) |
           static_cast<uint32_t>(right);
  }
  uint64_t start(uint64_t pair) const {
    const uint64_t hash = pair * 0x9E3779B97F4A7C15ULL;
    return (hash ^ (hash >> 29U)) & mask_;
  }

  std::vector<Slot> slots_;
  uint64_t mask_ = 0;
};

}  // namespace baton
