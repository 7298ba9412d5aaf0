// Transposition in registers of 16 bytes, which hold as many elements as a square of them has rows.
#pragma once

#include <cstdint>

namespace {

// T is an integer as wide as the elements. Rows need not be aligned; steps between them are bytes.
template <class T> struct Transpose16 {
  static constexpr int side = 16 / sizeof(T);
  typedef T Row __attribute__((vector_size(16)));
  typedef T Anywhere __attribute__((vector_size(16), aligned(1), may_alias));

  static void transpose(const void *x, int64_t step, void *y, int64_t step_of_y) {
    Row rows[side], next[side], low, high;
    for (int row = 0; row < side; ++row) {
      rows[row] = *(const Anywhere *)((const char *)x + row * step);
    }
    for (int place = 0; place < side; ++place) {
      low[place] = place / 2 + place % 2 * side;
      high[place] = low[place] + side / 2;
    }
    // Interleaving the halves, once for each bit of an index, turns row and column about.
    for (int bit = 1; bit < side; bit *= 2) {
      for (int row = 0; row < side / 2; ++row) {
        next[2 * row] = __builtin_shuffle(rows[row], rows[row + side / 2], low);
        next[2 * row + 1] = __builtin_shuffle(rows[row], rows[row + side / 2], high);
      }
      for (int row = 0; row < side; ++row) rows[row] = next[row];
    }
    for (int row = 0; row < side; ++row) {
      *(Anywhere *)((char *)y + row * step_of_y) = rows[row];
    }
  }
};

}  // namespace
