// Sixteen lanes: AVX-512 F, BW, DQ and VL; with AVX512_BF16 its rounding to bf16, too, which takes
// subnormal numbers for 0.
#pragma once

#include <immintrin.h>

namespace {

constexpr int lanes = 16;
typedef float Vec __attribute__((vector_size(64)));
typedef int32_t Int __attribute__((vector_size(64)));
using Halves = __m256i;

inline __mmask16 mask(First first) { return (1u << first.count) - 1; }
inline Vec load(const float *from, All) { return _mm512_loadu_ps(from); }
inline Vec load(const float *from, First first) { return _mm512_maskz_loadu_ps(mask(first), from); }
inline void store(float *to, Vec v, All) { _mm512_storeu_ps(to, v); }
inline void store(float *to, Vec v, First first) { _mm512_mask_storeu_ps(to, mask(first), v); }
inline void finish_streams() { _mm_sfence(); }
inline void stream(float *to, Vec v) { _mm512_stream_ps(to, v); }
inline void stream_halves(BFloat16 *to, Halves h) { _mm256_stream_si256((Halves *)to, h); }
inline Halves load_halves(const BFloat16 *from, All) { return _mm256_loadu_si256((Halves *)from); }
inline Halves load_halves(const BFloat16 *from, First first) {
  return _mm256_maskz_loadu_epi16(mask(first), from);
}
inline void store_halves(BFloat16 *to, Halves h, All) { _mm256_storeu_si256((Halves *)to, h); }
inline void store_halves(BFloat16 *to, Halves h, First first) {
  _mm256_mask_storeu_epi16(to, mask(first), h);
}
inline Int unpack(Halves h) { return (Int)_mm512_cvtepu16_epi32(h); }
inline Halves pack(Int v) { return _mm512_cvtepi32_epi16((__m512i)v); }
#if defined(__AVX512BF16__)
inline Halves narrow(Vec v) { return (Halves)_mm512_cvtneps_pbh(v); }
// The order that takes halves from two vectors by turns.
struct ByTurns {
  alignas(64) int16_t halves[2 * lanes];
  constexpr ByTurns() : halves() {
    for (int k = 0; k < 2 * lanes; ++k) halves[k] = k / 2 + k % 2 * lanes;
  }
};
inline constexpr ByTurns by_turns;
inline Int narrow_both(Vec lower, Vec upper) {
  return (Int)_mm512_permutexvar_epi16(_mm512_load_si512(by_turns.halves),
                                       (__m512i)_mm512_cvtne2ps_pbh(upper, lower));
}
#endif

inline Vec splat(float value) { return _mm512_set1_ps(value); }
constexpr bool fma_rounds_once = true;
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec round(Vec v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT); }
inline Vec scale(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }
// Relative error 2^-14.
inline Vec rough_reciprocal(Vec v) { return _mm512_rcp14_ps(v); }
// Of finite numbers but 0. A step of Newton's leaves 2^-28 of the error, and adds two roundings.
inline Vec reciprocal(Vec v) {
  Vec rough = rough_reciprocal(v);
  return fma(rough, _mm512_fnmadd_ps(v, rough, splat(1.0f)), rough);
}
inline Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec square_root(Vec v) { return _mm512_sqrt_ps(v); }
// As in vec.h, in one instruction: what each kind of number becomes is four bits of a constant.
inline Vec positive_part(Vec v) {
  return _mm512_fixupimm_ps(v, v, _mm512_set1_epi32(0x18131822), 0);
}

// What a table of 32 has at the last five bits of each lane.
inline Int look_up(const int32_t *table, Int k) {
  return (Int)_mm512_permutex2var_epi32(_mm512_load_si512(table), (__m512i)k,
                                        _mm512_load_si512(table + lanes));
}

using Mask = __mmask16;
inline Mask greater(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
inline Mask equal(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
inline Mask not_below(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }
inline Mask is_nan(Vec v) { return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q); }
inline Mask is_negative(Vec v) { return _mm512_movepi32_mask((__m512i)v); }
inline Vec select(Mask mask, Vec yes, Vec no) { return _mm512_mask_blend_ps(mask, no, yes); }
// a b + c, or 0.
inline Vec fma_or_zero(Mask mask, Vec a, Vec b, Vec c) {
  return _mm512_maskz_fmadd_ps(mask, a, b, c);
}
inline unsigned lanes_of(Mask mask) { return mask; }

inline Int wrapping_sum(Int a, Int b) { return (Int)_mm512_add_epi32((__m512i)a, (__m512i)b); }
inline Int to_int(Vec v) { return (Int)_mm512_cvtps_epi32(v); }
inline Vec to_vec(Int v) { return _mm512_cvtepi32_ps((__m512i)v); }
inline float sum(Vec v) { return _mm512_reduce_add_ps(v); }
inline float largest(Vec v) { return _mm512_reduce_max_ps(v); }

}  // namespace
