// exp of a vector to about 1 ulp: x = n ln 2 + r, a polynomial in r (Cephes expf coefficients),
// times 2^n. NaN stays NaN; below -87 the result is about 1e-38 instead of a subnormal.
#pragma once

namespace baton::cpu {

template <typename S>
inline typename S::V exponential(typename S::V x) {
  using V = typename S::V;
  x = S::max(S::set(-87.0F), S::min(S::set(88.0F), x));
  const V n = S::round(S::mul(x, S::set(1.44269504088896341F)));
  V r = S::fma(n, S::set(-0.693359375F), x);
  r = S::fma(n, S::set(2.12194440e-4F), r);
  V p = S::set(1.9875691500e-4F);
  p = S::fma(p, r, S::set(1.3981999507e-3F));
  p = S::fma(p, r, S::set(8.3334519073e-3F));
  p = S::fma(p, r, S::set(4.1665795894e-2F));
  p = S::fma(p, r, S::set(1.6666665459e-1F));
  p = S::fma(p, r, S::set(5.0000001201e-1F));
  p = S::add(S::fma(S::mul(r, r), p, r), S::set(1.0F));
  return S::times_power_of_two(p, n);
}

}  // namespace baton::cpu
