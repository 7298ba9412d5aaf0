// A Pack is several Vecs that take each step of a computation together. A multiplication's result
// comes four cycles after its start, and eight others could start meanwhile; a CPU finds them only
// if they are near it in the program.
#pragma once

#include <utility>

#include "vec.h"

namespace {

constexpr int pack_size = 4;

// Part is a Vec, or what belongs to one: an Int or a Mask.
template <class Part> struct Pack {
  Part parts[pack_size];
};

template <class T> constexpr bool is_pack = false;
template <class Part> constexpr bool is_pack<Pack<Part>> = true;

// What part k of a Pack takes part with; anything else serves every part.
template <int k, class T> inline T part_of(T value) { return value; }
template <int k, class Part> inline Part part_of(const Pack<Part> &pack) { return pack.parts[k]; }

// What make(k) gives for each k, which is a constant: a loop's would keep parts out of registers.
template <class Make> inline auto pack_of(Make make) {
  return [&]<int... k>(std::integer_sequence<int, k...>) {
    using Part = decltype(make(std::integral_constant<int, 0>{}));
    return Pack<Part>{{make(std::integral_constant<int, k>{})...}};
  }(std::make_integer_sequence<int, pack_size>{});
}
// What step makes of each part.
template <class Step, class... Inputs> inline auto together(Step step, const Inputs &...inputs) {
  return pack_of([&](auto k) { return step(part_of<k>(inputs)...); });
}

// For functions whose loops work on Packs: all they call becomes part of them, as a Pack that is
// handed over goes through memory. Sanitizers' checks would make compiling that take minutes.
#if defined(__SANITIZE_ADDRESS__)
#define IN_ONE_PIECE
#else
#define IN_ONE_PIECE __attribute__((flatten))
#endif

template <class... Inputs>
concept SomePack = (is_pack<Inputs> || ...);

#define TOGETHER(function)                                                        \
  template <class... Inputs> requires SomePack<Inputs...>                         \
  inline auto function(const Inputs &...inputs) {                                 \
    return together([](auto... parts) { return function(parts...); }, inputs...); \
  }
#define TOGETHER_OPERATOR(symbol)                                     \
  template <class A, class B> requires SomePack<A, B>                 \
  inline auto operator symbol(const A &a, const B &b) {               \
    return together([](auto x, auto y) { return x symbol y; }, a, b); \
  }

TOGETHER_OPERATOR(+)
TOGETHER_OPERATOR(-)
TOGETHER_OPERATOR(*)
TOGETHER_OPERATOR(|)
TOGETHER_OPERATOR(<<)
TOGETHER(min)
TOGETHER(max)
TOGETHER(fma)
TOGETHER(positive_part)
TOGETHER(select)
TOGETHER(equal)
TOGETHER(is_negative)
TOGETHER(reciprocal)
TOGETHER(rough_reciprocal)
#if defined(__AVX512F__)
TOGETHER(look_up)
TOGETHER(not_below)
TOGETHER(fma_or_zero)
TOGETHER(wrapping_sum)
#else
TOGETHER(round)
TOGETHER(scale)
#endif

template <class Part> inline Pack<Part> operator-(const Pack<Part> &pack) {
  return together([](auto part) { return -part; }, pack);
}
template <class To, class From> inline Pack<To> bits(const Pack<From> &pack) {
  return together([](auto part) { return bits<To>(part); }, pack);
}
inline bool all(const Pack<Mask> &masks) {
  bool found = true;
  for (Mask mask : masks.parts) found = found && all(mask);
  return found;
}
template <class V> inline V splat_as(float value) {
  if constexpr (is_pack<V>) {
    return pack_of([=](auto) { return splat(value); });
  } else {
    return splat(value);
  }
}
// a b, added to sum part after part.
inline Vec add_product(Vec sum, Vec a, Vec b) { return fma(a, b, sum); }
inline Vec add_product(Vec sum, const Pack<Vec> &a, const Pack<Vec> &b) {
  for (int k = 0; k < pack_size; ++k) sum = fma(a.parts[k], b.parts[k], sum);
  return sum;
}

// A load or store of a whole Pack. Which element goes to which lane is not said, but the same for
// all arrays of one type.
struct Packed {};
inline Pack<Vec> only(const Pack<Vec> &pack, Packed) { return pack; }

// Asks for all that a loop loads as one Pack, a page later.
template <class T> inline void fetch_ahead(const T *from) {
  constexpr int of_line = 64 / sizeof *from;
  for (int at = 0; at < pack_size * lanes; at += of_line) fetch_page_ahead(from + at);
}

inline Pack<Vec> load(const float *from, Packed) {
  fetch_ahead(from);
  return pack_of([=](auto k) { return load(from + k * lanes, All{}); });
}
inline void store(float *to, const Pack<Vec> &pack, Packed) {
  for (int k = 0; k < pack_size; ++k) store(to + k * lanes, pack.parts[k], All{});
}
inline void stream_store(float *to, const Pack<Vec> &pack, Packed) {
  for (int k = 0; k < pack_size; ++k) stream(to + k * lanes, pack.parts[k]);
}

// Two bf16 lie in 32 bits: the first is their lower half, the second their upper one.
inline Pack<Vec> load(const BFloat16 *from, Packed) {
  fetch_ahead(from);
  return pack_of([=](auto k) {
    Int pairs = load_pairs(from + k / 2 * 2 * lanes);
    return bits<Vec>(k % 2 ? pairs & static_cast<int32_t>(0xffff0000) : pairs << 16);
  });
}
inline void store(BFloat16 *to, const Pack<Vec> &pack, Packed) {
  for (int k = 0; k < pack_size; k += 2) {
    store_pairs(to + k * lanes, narrow_both(pack.parts[k], pack.parts[k + 1]));
  }
}
inline void stream_store(BFloat16 *to, const Pack<Vec> &pack, Packed) {
  for (int k = 0; k < pack_size; k += 2) {
    stream_pairs(to + k * lanes, narrow_both(pack.parts[k], pack.parts[k + 1]));
  }
}

// Calls step(index, Packed, All or First) until [begin, end) is done. Packs begin at multiples of
// their size, so that they are aligned where the array is.
template <class Step> inline void for_each_pack(int64_t begin, int64_t end, Step step) {
  constexpr int64_t size = pack_size * lanes;
  while (begin < end) {
    if (begin % size == 0 && begin + size <= end) {
      step(begin, Packed{});
      begin += size;
    } else {
      int64_t next = (begin / size + 1) * size < end ? (begin / size + 1) * size : end;
      for_each_vector(begin, next, step);
      begin = next;
    }
  }
}

}  // namespace
