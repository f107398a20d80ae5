// 16 floats in a register. Needs AVX-512 F, BW, VL and DQ.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace baton::cpu {

// The value of every nvfp4 code.
alignas(64) constexpr float kE2m1Values[16] = {0.0F,
                                               0.5F,
                                               1.0F,
                                               1.5F,
                                               2.0F,
                                               3.0F,
                                               4.0F,
                                               6.0F,
                                               -0.0F,
                                               -0.5F,
                                               -1.0F,
                                               -1.5F,
                                               -2.0F,
                                               -3.0F,
                                               -4.0F,
                                               -6.0F};

// The tag keeps the code of files with different compiler flags apart: what is not inlined must not
// be shared between them.
template <typename Tag>
struct Avx512Code {
  using V = __m512;
  static constexpr int kLanes = 16;
  // Accumulator tiles: 4 x 6 and their operands fill the 32 registers.
  static constexpr int kTileRows = 4;
  static constexpr int kSumVectors = 6;
  static constexpr int kIndexHeads = 6;

  static constexpr int kWide = 1;  // no wider reads of stored codes

  static V zero() { return _mm512_setzero_ps(); }
  static V set(float x) { return _mm512_set1_ps(x); }
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load_first(const float* p, int64_t count) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1U), p);
  }
  static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void store_first(float* p, V v, int64_t count) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << count) - 1U), v);
  }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V add(V a, V b) { return _mm512_add_ps(a, b); }
  static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V div(V a, V b) { return _mm512_div_ps(a, b); }
  static V max(V a, V b) { return _mm512_max_ps(a, b); }  // b where either is NaN
  static V min(V a, V b) { return _mm512_min_ps(a, b); }
  static V round(V a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT); }
  static V times_power_of_two(V a, V exponent) { return _mm512_scalef_ps(a, exponent); }

  static float sum(V v) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
  }
  static float largest(V v) { return _mm512_reduce_max_ps(v); }

  static V load_bf16(const uint16_t* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static V load_f16(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static V load_e4m3(const uint8_t* p) {
    return _mm512_mul_ps(load_e4m3_over_256(p), _mm512_set1_ps(256.0F));
  }
  // The value / 256: e4m3 is half precision with a shorter exponent, so its bits are moved into
  // place. In `half` bit 14 repeats the sign; adding 0x80 flips it for the code of NaN alone, so
  // the exclusive or is half precision's exponent of NaN there and 0 elsewhere.
  static V load_e4m3_over_256(const uint8_t* p) {
    const __m256i half = _mm256_slli_epi16(
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 7);
    const __m256i carried = _mm256_add_epi16(half, _mm256_set1_epi16(0x80));
    constexpr int kXorWhere = 0x78;  // a ^ (b & c)
    return _mm512_cvtph_ps(
        _mm256_ternarylogic_epi32(half, carried, _mm256_set1_epi16(0x4000), kXorWhere));
  }
  // 16 codes of 8 bytes: each lane takes its nibble, the permutation looks it up.
  static V load_e2m1(const uint8_t* p) {
    const __m512i words = _mm512_mask_broadcastd_epi32(
        _mm512_broadcastd_epi32(_mm_loadu_si32(p)), 0xff00, _mm_loadu_si32(p + 4));
    const __m512i codes = _mm512_srlv_epi32(
        words, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28));
    return _mm512_permutexvar_ps(codes, _mm512_load_ps(kE2m1Values));
  }
};

struct Avx512 : Avx512Code<Avx512> {};

}  // namespace baton::cpu
