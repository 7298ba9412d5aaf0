// 3x3 neighbourhoods of the cells of several maps, as rows that a matrix product takes, and back.
#pragma once

#include "parallel.h"
#include "square.h"
#include "vec.h"

namespace {

// `images` times the same maps, one after the other: rows [images, cells, channels], where cells
// run through each map row by row. `sizes` holds rows and columns of each map.
struct Maps {
  const int64_t *sizes;
  int64_t count, images, channels;

  int64_t cells() const {
    int64_t total = 0;
    for (int64_t map = 0; map < count; ++map) total += sizes[2 * map] * sizes[2 * map + 1];
    return total;
  }
};

// A cell, and what of its map lies around it.
struct Cell {
  int64_t index, row, column, rows, columns;

  // The index of the cell that lies `down` and `right` of it, or -1 outside the map.
  int64_t beside(int64_t down, int64_t right) const {
    const bool inside = row + down >= 0 && row + down < rows && column + right >= 0 &&
                        column + right < columns;
    return inside ? index + down * columns + right : -1;
  }
};

constexpr int64_t taps = 9;

template <class Body> void for_each_cell(const Maps &maps, int threads, Body body) {
  const int64_t cells = maps.cells(), of_turn = turn / (maps.channels + 1) + 1;
  in_turns(maps.images * cells, of_turn, threads, [&](int64_t first, int64_t last) {
    for (int64_t index = first; index < last; ++index) {
      int64_t in_map = index % cells;
      const int64_t *size = maps.sizes;
      for (; in_map >= size[0] * size[1]; size += 2) in_map -= size[0] * size[1];
      body(Cell{index, in_map / size[1], in_map % size[1], size[0], size[1]});
    }
  });
}

// neighbours [images, cells, 9, channels]: each cell's, row by row; 0 where there is none.
template <class T> void unfold(const T *x, const Maps &maps, T *neighbours, int threads) {
  const size_t bytes = maps.channels * sizeof(T);
  for_each_cell(maps, threads, [&](Cell cell) {
    T *to = neighbours + cell.index * taps * maps.channels;
    for (int64_t tap = 0; tap < taps; ++tap, to += maps.channels) {
      const int64_t from = cell.beside(tap / 3 - 1, tap % 3 - 1);
      if (from < 0) {
        memset(static_cast<void *>(to), 0, bytes);
      } else {
        memcpy(to, x + from * maps.channels, bytes);
      }
    }
  });
}

// The sum, in fp32, of all that `unfold` makes of a cell.
template <class T> void fold(const T *neighbours, const Maps &maps, T *x, int threads) {
  for_each_cell(maps, threads, [&](Cell cell) {
    const T *found[taps];
    int count = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t from = cell.beside(1 - tap / 3, 1 - tap % 3);
      if (from >= 0) found[count++] = neighbours + (from * taps + tap) * maps.channels;
    }
    for_each_vector(0, maps.channels, [&](int64_t at, auto part) {
      Vec total = splat(0.0f);
      for (int each = 0; each < count; ++each) total = total + load(found[each] + at, part);
      store(x + cell.index * maps.channels + at, total, part);
    });
  });
}

// y [columns, rows] of x [rows, columns]; T is an integer as wide as the elements.
template <class T> void transpose(const T *x, int64_t rows, int64_t columns, T *y, int threads) {
  constexpr int64_t down = 256, across = 64, side = Square<T>::side;
  const int64_t blocks_down = (rows + down - 1) / down;
  in_turns(blocks_down * ((columns + across - 1) / across), 1, threads, [&](int64_t block, int64_t) {
    const int64_t top = block % blocks_down * down, left = block / blocks_down * across;
    const int64_t bottom = top + down < rows ? top + down : rows;
    const int64_t right = left + across < columns ? left + across : columns;
    for (int64_t column = left; column < right; column += side) {
      for (int64_t row = top; row < bottom; row += side) {
        if (row + side <= bottom && column + side <= right) {
          Square<T>::transpose(x + row * columns + column, columns * sizeof(T),
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
