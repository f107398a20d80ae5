#include "base/hash.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace baton {
namespace {

// Odd constants with about as many ones as zeros, so that the product spreads every bit.
constexpr uint64_t kFirst = 0x9e3779b97f4a7c15ULL;
constexpr uint64_t kSecond = 0xd1b54a32d192ed03ULL;

__extension__ using Wide = unsigned __int128;

}  // namespace

uint64_t hash_mix(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a ^ kFirst) * static_cast<Wide>(b ^ kSecond);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_tokens(uint64_t previous, std::span<const int32_t> tokens) {
  uint64_t state = hash_mix(previous, tokens.size());
  for (const int32_t token : tokens) state = hash_mix(state, static_cast<uint32_t>(token));
  return state;
}

uint64_t hash_bytes(uint64_t seed, std::string_view bytes) {
  uint64_t state = hash_mix(seed, bytes.size());
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    state = hash_mix(state, word);
  }
  return state;
}

uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace baton
