// Widening of stored values, RMSNorm and silu.
#pragma once

#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/generic/stored_rows.h"

namespace baton::cpu {

template <typename S>
void widen(const void* from, DType dtype, int64_t count, float scale, float* out) {
  WeightView row{.data = from, .rows = 1, .columns = count};
  const auto run = [&](const auto& rows) {
    int64_t i = 0;
    for (; i + S::kLanes <= count; i += S::kLanes) {
      S::store(out + i, S::mul(rows.load(0, 0, i), S::set(scale)));
    }
    if (i < count) {
      S::store_first(out + i, S::mul(rows.tail(0, 0, i), S::set(scale)), count - i);
    }
  };
  if (dtype == DType::kF32) run(PlainRows<S, DType::kF32>(row, 0));
  if (dtype == DType::kBF16) run(PlainRows<S, DType::kBF16>(row, 0));
  if (dtype == DType::kF16) run(PlainRows<S, DType::kF16>(row, 0));
  if (dtype == DType::kF8E4M3) run(PlainRows<S, DType::kF8E4M3>(row, 0));
}

template <typename S>
void rms_norm(const float* x, const float* weight, int64_t n, float epsilon, float* out) {
  using V = typename S::V;
  V sums[4] = {S::zero(), S::zero(), S::zero(), S::zero()};
  int64_t i = 0;
  for (int lane = 0; i + S::kLanes <= n; i += S::kLanes, lane = (lane + 1) & 3) {
    const V v = S::load(x + i);
    sums[lane] = S::fma(v, v, sums[lane]);
  }
  if (i < n) {
    const V v = S::load_first(x + i, n - i);
    sums[0] = S::fma(v, v, sums[0]);
  }
  const float square = S::sum(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])));
  const float inverse = 1.0F / __builtin_sqrtf(square / static_cast<float>(n) + epsilon);
  for (i = 0; i + S::kLanes <= n; i += S::kLanes) {
    S::store(out + i, S::mul(S::mul(S::load(x + i), S::set(inverse)), S::load(weight + i)));
  }
  if (i < n) {
    const V v = S::mul(S::load_first(x + i, n - i), S::set(inverse));
    S::store_first(out + i, S::mul(v, S::load_first(weight + i, n - i)), n - i);
  }
}

template <typename S>
void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  const auto value = [](typename S::V g, typename S::V u) {
    const typename S::V e = exponential<S>(S::sub(S::zero(), g));
    return S::mul(S::div(g, S::add(S::set(1.0F), e)), u);
  };
  int64_t i = 0;
  for (; i + S::kLanes <= n; i += S::kLanes) {
    S::store(out + i, value(S::load(gate + i), S::load(up + i)));
  }
  if (i < n) {
    S::store_first(
        out + i, value(S::load_first(gate + i, n - i), S::load_first(up + i, n - i)), n - i);
  }
}

}  // namespace baton::cpu
