// Hashes used inside one process. Not for identity across hosts or tenants: that is the
// SHA-256 chain of a later layer (serving notes 1.6).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace baton {

// Mixes two 64-bit values into one: the low and high halves of a 64x64 -> 128 bit product,
// xored (the folded multiply used by wyhash). Seeded by the caller.
uint64_t hash_mix(uint64_t a, uint64_t b);

// Keyed hash of a run of token ids, chained: `previous` is the hash of the run before it,
// or the process seed for the first.
uint64_t hash_tokens(uint64_t previous, std::span<const int32_t> tokens);

uint64_t hash_bytes(uint64_t seed, std::string_view bytes);

// Unpredictable, different in every process: clients cannot construct collisions.
uint64_t random_seed();

}  // namespace baton
