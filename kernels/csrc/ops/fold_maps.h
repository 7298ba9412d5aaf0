// The gradient of what unfold_maps takes, from that of what it gives.
#pragma once

#include "export.h"
#include "maps.h"

namespace {

// The sum, in fp32, of all that `unfold_maps` makes of a cell.
template <class T>
void fold_maps(const T *neighbours, const int64_t *sizes, int64_t count, int64_t images,
               int64_t channels, T *x, int threads) {
  const Maps maps{sizes, count, images, channels};
  for_each_cell(maps, threads, [&](Cell cell) {
    const T *found[taps];
    int found_count = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t from = cell.beside(1 - tap / 3, 1 - tap % 3);
      if (from >= 0) found[found_count++] = neighbours + (from * taps + tap) * maps.channels;
    }
    for_each_vector(0, maps.channels, [&](int64_t at, auto part) {
      Vec total = splat(0.0f);
      for (int each = 0; each < found_count; ++each) total = total + load(found[each] + at, part);
      store(x + cell.index * maps.channels + at, total, part);
    });
  });
}

}  // namespace

EXPORT(fold_maps)
