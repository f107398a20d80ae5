// AVX-512 with byte permutations (VBMI: Ice Lake, Zen 4 and later): tables of bytes in registers
// turn stored codes into the bits of floats. All values are those of the plain AVX-512 code.
#pragma once

#include "kernels/cpu/avx512/simd.h"

namespace baton::cpu {

namespace vbmi {

template <int kSize>
struct alignas(64) Table {
  uint8_t values[kSize];
};

constexpr uint32_t bf16_of_e4m3_over_256(uint32_t magnitude) {
  if (magnitude == 0x7f) return 0x7fc0;
  if (magnitude >= 8) return (magnitude << 4) + (112U << 7);
  if (magnitude == 0) return 0;
  // Subnormal: magnitude * 2^-17, made normal.
  const uint32_t top = magnitude >= 4 ? 2 : magnitude >= 2 ? 1 : 0;
  return ((110U + top) << 7) | ((magnitude << (7 - top)) & 0x7fU);
}
constexpr Table<128> byte_table(int shift) {
  Table<128> table{};
  for (uint32_t i = 0; i < 128; ++i)
    table.values[i] = static_cast<uint8_t>(bf16_of_e4m3_over_256(i) >> shift);
  return table;
}
// Vector v, lane i (value 16 v + i) comes out of 128-bit lane i / 4, word 2 (i % 4) + v % 2 of
// the unpacked half v / 2.
constexpr Table<64> order_table() {
  Table<64> table{};
  for (uint32_t v = 0; v < 4; ++v) {
    for (uint32_t i = 0; i < 16; ++i) {
      table.values[i / 4 * 16 + v / 2 * 8 + i % 4 * 2 + v % 2] = static_cast<uint8_t>(16 * v + i);
    }
  }
  return table;
}
constexpr Table<64> nibble_table() {
  Table<64> table{};
  for (uint32_t i = 0; i < 16; ++i) table.values[4 * i] = static_cast<uint8_t>(4 * i);
  return table;
}

constexpr Table<128> kLow = byte_table(0);
constexpr Table<128> kHigh = byte_table(8);
constexpr Table<64> kOrder = order_table();
constexpr Table<64> kNibbles = nibble_table();

}  // namespace vbmi

struct Avx512Vbmi : Avx512Code<Avx512Vbmi> {
  static constexpr int kWide = 4;  // vectors that a wide load makes

  // 64 values / 256 as 4 vectors. All are exact in bf16: one table holds the upper bytes of the 128
  // magnitudes, one the lower bytes; NaN is an entry like any other.
  static void load_e4m3_over_256_wide(const uint8_t* p, V* out) {
    // Unpacking works within 128-bit lanes and the shifts below take every second value: with the
    // codes in this order both leave them in place.
    const __m512i codes =
        _mm512_permutexvar_epi8(_mm512_load_si512(vbmi::kOrder.values), _mm512_loadu_si512(p));
    const __m512i low = _mm512_permutex2var_epi8(
        _mm512_load_si512(vbmi::kLow.values), codes, _mm512_load_si512(vbmi::kLow.values + 64));
    const __m512i magnitude = _mm512_permutex2var_epi8(
        _mm512_load_si512(vbmi::kHigh.values), codes, _mm512_load_si512(vbmi::kHigh.values + 64));
    constexpr int kOrWhere = 0xf8;  // a | (b & c)
    const __m512i high =
        _mm512_ternarylogic_epi32(magnitude, codes, _mm512_set1_epi8(-128), kOrWhere);
    const __m512i first = _mm512_unpacklo_epi8(low, high);
    const __m512i second = _mm512_unpackhi_epi8(low, high);
    const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000U));
    out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(first, 16));
    out[1] = _mm512_castsi512_ps(_mm512_and_si512(first, upper));
    out[2] = _mm512_castsi512_ps(_mm512_slli_epi32(second, 16));
    out[3] = _mm512_castsi512_ps(_mm512_and_si512(second, upper));
  }

  // 16 codes of 8 bytes: the multishift puts code i at the bottom of lane i, whose other bits the
  // permutation ignores.
  static V load_e2m1(const uint8_t* p) {
    const __m512i pairs =
        _mm512_set1_epi64(_mm_cvtsi128_si64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    const __m512i codes =
        _mm512_multishift_epi64_epi8(_mm512_load_si512(vbmi::kNibbles.values), pairs);
    return _mm512_permutexvar_ps(codes, _mm512_load_ps(kE2m1Values));
  }
};

}  // namespace baton::cpu
