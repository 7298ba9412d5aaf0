// Eight lanes: AVX2 with FMA.
#pragma once

#include <immintrin.h>

namespace {

constexpr int lanes = 8;
typedef float Vec __attribute__((vector_size(32)));
typedef int32_t Int __attribute__((vector_size(32)));
using Halves = __m128i;

inline __m256i mask(First first) {
  return (__m256i)(first.count > Int{0, 1, 2, 3, 4, 5, 6, 7});
}
inline Vec load(const float *from, All) { return _mm256_loadu_ps(from); }
inline Vec load(const float *from, First first) { return _mm256_maskload_ps(from, mask(first)); }
inline void store(float *to, Vec v, All) { _mm256_storeu_ps(to, v); }
inline void store(float *to, Vec v, First first) { _mm256_maskstore_ps(to, mask(first), v); }
inline void finish_streams() { _mm_sfence(); }
inline void stream(float *to, Vec v) { _mm256_stream_ps(to, v); }
inline void stream_halves(BFloat16 *to, Halves h) { _mm_stream_si128((Halves *)to, h); }
inline Halves load_halves(const BFloat16 *from, All) { return _mm_loadu_si128((Halves *)from); }
inline Halves load_halves(const BFloat16 *from, First first) {
  Halves h = {};
  memcpy(&h, from, first.count * sizeof *from);
  return h;
}
inline void store_halves(BFloat16 *to, Halves h, All) { _mm_storeu_si128((Halves *)to, h); }
inline void store_halves(BFloat16 *to, Halves h, First first) {
  memcpy(to, &h, first.count * sizeof *to);
}
inline Int unpack(Halves h) { return (Int)_mm256_cvtepu16_epi32(h); }
inline Halves pack(Int v) {
  __m256i low = (__m256i)(v & 0xffff);
  return _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
}

inline Vec splat(float value) { return _mm256_set1_ps(value); }
constexpr bool fma_rounds_once = true;
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec round(Vec v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT); }
inline Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec square_root(Vec v) { return _mm256_sqrt_ps(v); }

using Mask = Vec;  // a lane's sign says
inline Mask greater(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
inline Mask equal(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
inline Mask is_nan(Vec v) { return _mm256_cmp_ps(v, v, _CMP_UNORD_Q); }
inline Mask is_negative(Vec v) { return v; }
inline Vec select(Mask mask, Vec yes, Vec no) { return _mm256_blendv_ps(no, yes, mask); }
inline unsigned lanes_of(Mask mask) { return _mm256_movemask_ps(mask); }

inline Int to_int(Vec v) { return (Int)_mm256_cvtps_epi32(v); }
inline Vec to_vec(Int v) { return _mm256_cvtepi32_ps((__m256i)v); }
inline float sum(Vec v) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Vec v) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace
