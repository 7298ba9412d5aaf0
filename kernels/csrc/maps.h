// The cells of several maps, and what lies around each.
#pragma once

#include "parallel.h"
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
  const int64_t cells = maps.cells(), of_chunk = chunk_size / (maps.channels + 1) + 1;
  parallel_for_chunks(maps.images * cells, of_chunk, threads, [&](int64_t first, int64_t last) {
    for (int64_t index = first; index < last; ++index) {
      int64_t in_map = index % cells;
      const int64_t *size = maps.sizes;
      for (; in_map >= size[0] * size[1]; size += 2) in_map -= size[0] * size[1];
      body(Cell{index, in_map / size[1], in_map % size[1], size[0], size[1]});
    }
  });
}

}  // namespace
