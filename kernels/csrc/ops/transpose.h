// A matrix turned about its diagonal.
#pragma once

#include "export.h"
#include "parallel.h"
#include "transpose16.h"

namespace {

// y [columns, rows] of x [rows, columns]; T is an integer as wide as the elements.
template <class T> void transpose(const T *x, int64_t rows, int64_t columns, T *y, int threads) {
  constexpr int64_t down = 256, across = 64, side = Transpose16<T>::side;
  const int64_t blocks_down = (rows + down - 1) / down;
  const int64_t blocks = blocks_down * ((columns + across - 1) / across);
  parallel_for_chunks(blocks, 1, threads, [&](int64_t block, int64_t) {
    const int64_t top = block % blocks_down * down, left = block / blocks_down * across;
    const int64_t bottom = top + down < rows ? top + down : rows;
    const int64_t right = left + across < columns ? left + across : columns;
    for (int64_t column = left; column < right; column += side) {
      for (int64_t row = top; row < bottom; row += side) {
        if (row + side <= bottom && column + side <= right) {
          Transpose16<T>::transpose(x + row * columns + column, columns * sizeof(T),
                               y + column * rows + row, rows * sizeof(T));
          continue;
        }
        for (int64_t r = row; r < row + side && r < bottom; ++r) {
          for (int64_t c = column; c < column + side && c < right; ++c) {
            y[c * rows + r] = x[r * columns + c];
          }
        }
      }
    }
  });
}

}  // namespace

// Elements are moved as they are: as integers of their width.
EXPORT_AS(transpose, f32, transpose<uint32_t>)
EXPORT_AS(transpose, bf16, transpose<uint16_t>)
