// 3x3 neighbourhoods of the cells of several maps, as rows that a matrix product takes.
#pragma once

#include "export.h"
#include "maps.h"

namespace {

// neighbours [images, cells, 9, channels]: each cell's, row by row; 0 where there is none.
template <class T>
void unfold_maps(const T *x, const int64_t *sizes, int64_t count, int64_t images, int64_t channels,
                 T *neighbours, int threads) {
  const Maps maps{sizes, count, images, channels};
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

}  // namespace

EXPORT(unfold_maps)
