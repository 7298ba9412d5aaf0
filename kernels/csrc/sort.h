// A stable sort by 32-bit keys, and an array that frees itself: the standard library's templates
// could be shared between instruction sets.
#pragma once

#include <cstdint>
#include <cstring>

#include "vec.h"

namespace {

template <class T> struct Array {
  T *first;
  explicit Array(int64_t count) : first(new T[count]) {}
  Array(Array &&other) : first(other.first) { other.first = nullptr; }
  ~Array() { delete[] first; }
  T &operator[](int64_t index) const { return first[index]; }
};

// Sorts `order`, some indices, by keys[index], smallest first; of equal keys the first stays first.
// A radix sort from the lowest byte up, which leaves out bytes that are the same everywhere.
inline void sort_by(const uint32_t *keys, int32_t *order, int64_t count) {
  Array<int32_t> other(count);
  for (int shift = 0; shift < 32; shift += 8) {
    int64_t places[257] = {};
    for (int64_t at = 0; at < count; ++at) ++places[(keys[order[at]] >> shift & 0xff) + 1];
    if (count == 0 || places[(keys[order[0]] >> shift & 0xff) + 1] == count) continue;
    for (int byte = 0; byte < 256; ++byte) places[byte + 1] += places[byte];
    for (int64_t at = 0; at < count; ++at) {
      other[places[keys[order[at]] >> shift & 0xff]++] = order[at];
    }
    memcpy(order, other.first, count * sizeof *order);
  }
}

// Writes the order of scores, best first; of equal scores the first comes first. NaN, whatever its
// sign and payload, is better than all else, as torch sorts.
inline void best_first(const float *scores, int32_t *order, int64_t count) {
  Array<uint32_t> keys(count);
  for (int64_t at = 0; at < count; ++at) {
    uint32_t score = bits<uint32_t>(scores[at] + 0.0f);  // -0 becomes 0
    // As numbers, floats' bits rise with positive floats, and fall with negative ones.
    keys[at] = scores[at] != scores[at] ? 0 : score >> 31 ? score : ~score & 0x7fffffff;
    order[at] = at;
  }
  sort_by(keys.first, order, count);
}

}  // namespace
