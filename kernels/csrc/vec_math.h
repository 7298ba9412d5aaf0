// exp and log over a V, a Vec or a Pack, as polynomials: `python -m kernels.minimax` finds them.
#pragma once

#include "pack.h"

namespace {

// How much a result is worth: fp32 takes all the bits there are, bf16 keeps 8. exp is e^x for
// |x| <= ln 2 / 2, exp_near_0 for |x| <= ln 2 / 64, atanh is 2 atanh(x^1/2) / x^1/2 for x in
// [0, 1 / 9], log1p is log(1 + x) / x for x in [0, 1].
struct Fine {
  static constexpr bool is_fine = true;
  // relative error 1.9e-9
  static constexpr float exp[] = {1.00000000e+00f, 1.00000004e+00f, 4.99999921e-01f,
                                  1.66664202e-01f, 4.16682256e-02f, 8.37481580e-03f,
                                  1.38368460e-03f};
  // relative error 5.3e-8
  static constexpr float exp_near_0[] = {1.00000000e+00f, 1.00001466e+00f, 4.99996334e-01f};
  // relative error 4.5e-9
  static constexpr float atanh[] = {2.00000000e+00f, 6.66664163e-01f, 4.00215272e-01f,
                                    2.80018053e-01f, 2.80119867e-01f};
};
struct Coarse {
  static constexpr bool is_fine = false;
  // relative error 7.5e-5
  static constexpr float exp[] = {9.99928074e-01f, 1.00016419e+00f, 5.04963264e-01f,
                                  1.65668423e-01f};
  // relative error 6.7e-5
  static constexpr float log1p[] = {1.00000000e+00f, -4.97774490e-01f, 3.09224744e-01f,
                                    -1.61363035e-01f, 4.31062581e-02f};
};

// c[0] + c[1] x + c[2] x² + …
template <class V, int n> inline V polynomial(V x, const float (&c)[n]) {
  V value = fma(x, splat(c[n - 1]), splat(c[n - 2]));
  for (int k = n - 3; k >= 0; --k) value = fma(value, x, splat(c[k]));
  return value;
}

#if defined(__AVX512F__)
// Bits of 2^(k / 32), less those that adding k / 32 to an exponent sets.
struct Powers {
  alignas(64) int32_t bits_of[32];
  constexpr Powers() : bits_of() {
    double power = 1;
    for (int k = 0; k < 32; ++k, power *= 1.0218971486541166) {
      bits_of[k] = __builtin_bit_cast(int32_t, static_cast<float>(power)) - (k << 18);
    }
  }
};
inline constexpr Powers powers;

// e^v for v up to 88, and 0 below -87: v = n ln 2 + r, with n in 32nds.
template <class Precision, class V> inline V exp(V v) {
  const Vec shift = splat(393216.0f);  // 1.5 * 2^18: its last bit counts 32nds
  V shifted = fma(v, splat(1.44269504f), shift);
  V r = fma(shifted - shift, splat(-0.693147182f), v);
  auto k = bits<Int>(shifted);
  V power = bits<Vec>(wrapping_sum(look_up(powers.bits_of, k), k << 18));  // wraps below -87
  auto counts = not_below(v, splat(-87.0f));
  if constexpr (Precision::is_fine) {
    V growth = fma(r, splat(Precision::exp_near_0[2]), splat(Precision::exp_near_0[1]));
    return fma_or_zero(counts, power * r, growth, power);
  } else {
    return fma_or_zero(counts, power, r, power);  // 1 + r: relative error 5.9e-5
  }
}
#else
// e^v for v up to 88: v = n ln 2 + r. Where n ln 2 would be rounded before it is taken off, it goes
// in two parts, the first of them short enough to be exact (Cody and Waite 1980).
template <class Precision, class V> inline V exp(V v) {
  constexpr float most = fma_rounds_once ? 0.693147182f : 0.693359375f;
  constexpr float rest = fma_rounds_once ? 0.0f : -2.12194440e-4f;
  v = max(splat(-120.0f), v);
  V n = round(v * 1.44269504f);
  V r = fma(n, splat(-most), v);
  if constexpr (rest != 0) r = fma(n, splat(-rest), r);
  return scale(polynomial(r, Precision::exp), n);
}
#endif

// addend + log(1 + v) for v in [0, 1], from v itself or, in fp32, from s = v / (v + 2): it is
// 2 atanh(s), whose series is short.
template <class Precision, class V> inline V add_log(V addend, V argument) {
  if constexpr (Precision::is_fine) {
    return fma(argument, polynomial(argument * argument, Precision::atanh), addend);
  } else {
    return fma(argument, polynomial(argument, Precision::log1p), addend);
  }
}

// base^exponent for base in [0, 1] and |exponent| <= 32. base = 2^k (1 + m), and the power of the
// first factor is worked out apart, so that a tiny base costs no precision. 0 counts as 2^-127.
inline Vec power(Vec base, float exponent) {
  Int k = (bits<Int>(base) >> 23) - 127;
  Vec m = bits<Vec>((bits<Int>(base) & 0x7fffff) | 0x3f800000) - 1.0f;
  Vec whole = to_vec(k) * exponent;
  Vec n = round(whole);
  Vec rest = (whole - n) + fma(to_vec(k), splat(exponent), -whole);
  Vec log_of_rest = add_log<Fine>(splat(0.0f), m / (m + 2.0f)) * exponent;
  Vec logarithm = fma(rest, splat(0.693147181f), log_of_rest);
  return scale(exp<Fine>(logarithm), max(splat(-252.0f), n));
}
TOGETHER(power)

}  // namespace
