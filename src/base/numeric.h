// Small number formats, as exact bit arithmetic that host and device share: bf16, IEEE half,
// e4m3fn (bias 7, max 448, no infinity, 0x7f/0xff NaN) and e2m1 (0 0.5 1 1.5 2 3 4 6).
// Conversions to a narrower format round to nearest, ties to even; e4m3 and e2m1 saturate.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define BATON_HOST_DEVICE __host__ __device__
#else
#define BATON_HOST_DEVICE
#endif

namespace baton {

BATON_HOST_DEVICE inline uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

BATON_HOST_DEVICE inline float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

BATON_HOST_DEVICE inline float bf16_to_float(uint16_t bits) {
  return bits_float(static_cast<uint32_t>(bits) << 16);
}

BATON_HOST_DEVICE inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

BATON_HOST_DEVICE inline float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1fU) return bits_float(sign | 0x7f800000U | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8F;  // 2^-24
    return sign != 0 ? -magnitude : magnitude;
  }
  return bits_float(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

BATON_HOST_DEVICE inline uint16_t float_to_f16(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // >= 65520
  if (magnitude < 0x38800000U) {  // below 2^-14: subnormal, in units of 2^-24
    // Adding 0.5 puts the unit in the last place of the sum, so the sum is rounded to it.
    const float shifted = bits_float(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (float_bits(shifted) - 0x3f000000U));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

BATON_HOST_DEVICE inline float e4m3_to_float(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80U) << 24;
  const uint32_t exponent = (bits >> 3) & 0xfU;
  const uint32_t mantissa = bits & 0x7U;
  if (exponent == 0xfU && mantissa == 0x7U) return bits_float(sign | 0x7fc00000U);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0.001953125F;  // 2^-9
    return sign != 0 ? -magnitude : magnitude;
  }
  return bits_float(sign | ((exponent + 120U) << 23) | (mantissa << 20));
}

BATON_HOST_DEVICE inline uint8_t float_to_e4m3(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = (bits >> 24) & 0x80U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint8_t>(sign | 0x7fU);
  if (magnitude >= 0x43e00000U) return static_cast<uint8_t>(sign | 0x7eU);  // >= 448: saturate
  if (magnitude < 0x3c800000U) {  // below 2^-6: subnormal, in units of 2^-9
    // 16384 has its unit in the last place at 2^-9, so the sum is rounded to the subnormal grid.
    const float shifted = bits_float(magnitude) + 16384.0F;
    return static_cast<uint8_t>(sign | (float_bits(shifted) - 0x46800000U));
  }
  const uint32_t rounded = magnitude + 0x7ffffU + ((magnitude >> 20) & 1U);
  const uint32_t code = (rounded >> 20) - (120U << 3);
  return static_cast<uint8_t>(sign | (code > 0x7eU ? 0x7eU : code));
}

// `code` in 0..15: bit 3 is the sign.
BATON_HOST_DEVICE inline float e2m1_to_float(uint32_t code) {
  const uint32_t exponent = (code >> 1) & 3U;
  const uint32_t mantissa = code & 1U;
  const float magnitude = exponent == 0 ? 0.5F * static_cast<float>(mantissa)
                                        : bits_float(((exponent + 126U) << 23) | (mantissa << 22));
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

// Thresholds between neighbouring codes; a tie goes to the even code.
BATON_HOST_DEVICE inline uint32_t float_to_e2m1(float value) {
  const float magnitude = fabsf(value);
  uint32_t code = 0;
  if (magnitude > 0.25F) code = 1;
  if (magnitude >= 0.75F) code = 2;
  if (magnitude > 1.25F) code = 3;
  if (magnitude >= 1.75F) code = 4;
  if (magnitude > 2.5F) code = 5;
  if (magnitude >= 3.5F) code = 6;
  if (magnitude > 5.0F) code = 7;
  return (float_bits(value) >> 31 << 3) | code;
}

// Smallest power of two that is >= value; value must be finite and > 0.
BATON_HOST_DEVICE inline float ceil_power_of_two(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t exponent = (bits & 0x7fffffU) != 0 ? (bits >> 23) + 1U : bits >> 23;
  return bits_float(exponent << 23);
}

}  // namespace baton
