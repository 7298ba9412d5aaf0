// A `Vec` holds as many floats as one register of the instruction set this is compiled for.
// Algorithms are written once over it and compiled once for each set.
//
// All of it lies in an unnamed namespace: were one inline function shared between two instruction
// sets, the linker would keep one copy of it, perhaps the one an older CPU can't run.
#pragma once

#include <cstdint>
#include <cstring>

namespace {

struct BFloat16 {
  uint16_t bits;
};

// Which lanes a load or store is about: all, or the first few; the others read as 0.
struct All {};
struct First {
  int count;
};


template <class To, class From> inline To bits(From value) { return __builtin_bit_cast(To, value); }

inline float number(float element) { return element; }
inline float number(BFloat16 element) { return bits<float>(int32_t{element.bits} << 16); }

}  // namespace

#if defined(__AVX512F__)
#include "vec_avx512.h"
#elif defined(__AVX2__)
#include "vec_avx2.h"
#else
#include "vec_scalar.h"
#endif

namespace {

#if !defined(__AVX512F__)
inline Vec reciprocal(Vec v) { return 1.0f / v; }
inline Vec rough_reciprocal(Vec v) { return reciprocal(v); }

// max(v, 0), but of -infinity a NaN.
inline Vec positive_part(Vec v) { return v - min(v, splat(0.0f)); }

// v * 2^n for whole n in [-252, 254]: two factors, since one can't reach below 2^-126.
inline Vec scale(Vec v, Vec n) {
  Int whole = to_int(n), half = whole >> 1;
  return v * bits<Vec>((half + 127) << 23) * bits<Vec>((whole - half + 127) << 23);
}
#endif

#if !defined(__AVX512BF16__)
// bf16 is the upper half of fp32; this rounds to nearest even, and leaves the lower half as it comes.
inline Int rounded_upper_halves(Vec v) {
  Int whole = bits<Int>(v);
  Int rounded = whole + 0x7fff + ((whole >> 16) & 1);
  // Rounding could carry a NaN's payload into the exponent, and make it an infinity.
  return bits<Int>(select(is_nan(v), bits<Vec>(whole | 0x400000), bits<Vec>(rounded)));
}
inline Halves narrow(Vec v) { return pack(rounded_upper_halves(v) >> 16); }
// Pairs of bf16, the first of each in the lower half.
inline Int narrow_both(Vec lower, Vec upper) {
  constexpr auto upper_half = static_cast<int32_t>(0xffff0000);
  return (rounded_upper_halves(lower) >> 16 & 0xffff) | (rounded_upper_halves(upper) & upper_half);
}
#endif

// Pairs of bf16, as they lie in memory.
inline Int load_pairs(const BFloat16 *from) {
  Int pairs;
  memcpy(&pairs, from, sizeof pairs);
  return pairs;
}
inline void store_pairs(BFloat16 *to, Int pairs) { memcpy(to, &pairs, sizeof pairs); }
inline void stream_pairs(BFloat16 *to, Int pairs) {
  stream(reinterpret_cast<float *>(to), bits<Vec>(pairs));
}

template <class Part> inline Vec load(const BFloat16 *from, Part part) {
  return bits<Vec>(unpack(load_halves(from, part)) << 16);
}
template <class Part> inline void store(BFloat16 *to, Vec v, Part part) {
  store_halves(to, narrow(v), part);
}

inline void stream(BFloat16 *to, Vec v) { stream_halves(to, narrow(v)); }

// Stores past the caches, without reading first what is overwritten; `to` is aligned as `Vec`s are.
// Call finish_streams before another thread reads it.
inline void stream_store(float *to, Vec v, All) { stream(to, v); }
inline void stream_store(BFloat16 *to, Vec v, All) { stream(to, v); }
template <class T> inline void stream_store(T *to, Vec v, First first) { store(to, v, first); }

// Whether what is written is too large for caches to keep until it is read.
template <class T> inline bool should_stream(const T *to, int64_t count) {
  return count * static_cast<int64_t>(sizeof *to) >= int64_t{32} << 20 &&
         reinterpret_cast<uintptr_t>(to) % 64 == 0;
}

// Asks for what lies a page behind: CPUs fetch ahead by themselves, but not across pages.
inline void fetch_page_ahead(const void *from) {
  constexpr int page = 4096;
  // An address, since no pointer may lead that far beyond an array.
  __builtin_prefetch(reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(from) + page));
}

inline int count_of(All) { return lanes; }
inline int count_of(First first) { return first.count; }
template <class Part> inline unsigned lanes_in(Part part) { return (1u << count_of(part)) - 1; }

inline bool all(Mask mask) { return lanes_of(mask) == lanes_in(All{}); }

// v with 0 in all other lanes.
inline Vec only(Vec v, All) { return v; }
inline Vec only(Vec v, First first) {
  float elements[lanes];
  store(elements, v, first);
  return load(elements, first);
}

// Calls step(index, All or First) until [begin, end) is done. Whole vectors begin at multiples of
// `lanes`, so that they are aligned where the array is.
template <class Step> inline void for_each_vector(int64_t begin, int64_t end, Step step) {
  int64_t index = begin;
  if (int ahead = index % lanes; ahead != 0 && index < end) {
    int count = end - index < lanes - ahead ? end - index : lanes - ahead;
    step(index, First{count});
    index += count;
  }
  for (; index + lanes <= end; index += lanes) step(index, All{});
  if (index < end) step(index, First{static_cast<int>(end - index)});
}

}  // namespace
