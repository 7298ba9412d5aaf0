// One lane: portable C++, and the plainest form of what a `Vec` can do.
#pragma once

namespace {

constexpr int lanes = 1;
using Vec = float;
using Int = int32_t;
using Halves = uint16_t;

template <class Part> inline Vec load(const float *from, Part) { return *from; }
template <class Part> inline void store(float *to, Vec v, Part) { *to = v; }
template <class Part> inline Halves load_halves(const BFloat16 *from, Part) { return from->bits; }
template <class Part> inline void store_halves(BFloat16 *to, Halves h, Part) { to->bits = h; }
inline void finish_streams() {}
inline void stream(float *to, Vec v) { memcpy(to, &v, sizeof v); }
inline void stream_halves(BFloat16 *to, Halves h) { to->bits = h; }
inline Int unpack(Halves h) { return h; }
inline Halves pack(Int v) { return static_cast<Halves>(v); }

inline Vec splat(float value) { return value; }
constexpr bool fma_rounds_once = false;
inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
inline Vec round(Vec v) {  // for |v| < 2^22: 1.5 * 2^23 leaves no bits for a fraction
  const Vec magic = 12582912.0f;
  return (v + magic) - magic;
}
// Where a NaN makes two numbers not comparable, these return the second.
inline Vec min(Vec a, Vec b) { return a < b ? a : b; }
inline Vec max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec square_root(Vec v) { return __builtin_sqrtf(v); }

using Mask = bool;
inline Mask greater(Vec a, Vec b) { return a > b; }
inline Mask equal(Vec a, Vec b) { return a == b; }
inline Mask is_nan(Vec v) { return v != v; }
inline Mask is_negative(Vec v) { return bits<Int>(v) < 0; }
inline Vec select(Mask mask, Vec yes, Vec no) { return mask ? yes : no; }
inline unsigned lanes_of(Mask mask) { return mask; }

inline Int to_int(Vec v) { return v == v ? static_cast<Int>(v) : 0; }
inline Vec to_vec(Int v) { return static_cast<Vec>(v); }
inline float sum(Vec v) { return v; }
inline float largest(Vec v) { return v; }

}  // namespace
