// The transforms of a 3x3 convolution over the cells of several maps by Winograd's algorithm. What
// lies between them is one matrix product for each of the (m + 2)^2 planes:
//   products[plane] = tiles[plane] weights[plane]^T
// Gradients are the adjoints of it all, in the other direction.
//
// x [images, cells, channels]; tiles and products [planes, rows, channels], of which the first rows
// are the tiles of all images; weight [outs, 3, 3, ins], its planes [planes, outs, ins].
#pragma once

#include "export.h"
#include "winograd.h"

namespace {

template <int m> constexpr auto input_transform = Winograd<m>::of_input;
template <int m> constexpr auto input_adjoint = gathered_adjoint<m>();
template <int m> constexpr auto weight_transform = Winograd<m>::of_weight;
template <int m> constexpr auto weight_adjoint = Winograd<m>::of_weight.adjoint();
template <int m> constexpr auto output_transform = Winograd<m>::of_output;
template <int m> constexpr auto output_adjoint = Winograd<m>::of_output.adjoint();

// Calls step(std::integral_constant<int, m>) for m = 2 or 4.
template <class Step> inline void with_tile_size(int64_t m, Step step) {
  if (m == 2) {
    step(std::integral_constant<int, 2>{});
  } else {
    step(std::integral_constant<int, 4>{});
  }
}

template <class T>
void winograd_tiles(const T *x, const int64_t *sizes, int64_t count, int64_t images,
                    int64_t channels, int64_t tile_size, int64_t rows, T *tiles, int threads) {
  const Maps maps{sizes, count, images, channels};
  with_tile_size(tile_size, [&](auto m) {
    const Rows<const T> cells{x, channels};
    const Planes<m, T> planes{tiles, rows, channels};
    for_each_tile(maps, m, threads, [&](Tile tile) {
      transform_rows<input_transform<m>>(
          channels,
          [&](int row, int column) { return cells.at(tile.cell(m, row - 1, column - 1)); },
          [&](int row, int column) { return planes.at(row, column, tile.index); });
    });
  });
}

template <class T>
void winograd_tiles_adjoint(const T *tiles, const int64_t *sizes, int64_t count, int64_t images,
                            int64_t channels, int64_t tile_size, int64_t rows, T *x, int threads) {
  const Maps maps{sizes, count, images, channels};
  with_tile_size(tile_size, [&](auto m) {
    const Planes<m, const T> planes{tiles, rows, channels};
    const Rows<T> cells{x, channels};
    for_each_tile(maps, m, threads, [&](Tile tile) {
      transform_rows<input_adjoint<m>>(
          channels,
          [&](int row, int column) {
            const Gathered<m> down{row}, right{column};
            return planes.at(down.of_tile(), right.of_tile(), tile.beside(down.tile(), right.tile()));
          },
          [&](int row, int column) { return cells.at(tile.cell(m, row, column)); });
    });
  });
}

// bias [channels], or null.
template <class T>
void winograd_output(const T *products, const int64_t *sizes, int64_t count, int64_t images,
                     int64_t channels, int64_t tile_size, int64_t rows, const T *bias, bool relu,
                     T *y, int threads) {
  const Maps maps{sizes, count, images, channels};
  const auto finish = [&](Vec v, int64_t channel, auto part) {
    if (bias) v = v + load(bias + channel, part);
    return relu ? select(greater(splat(0.0f), v), splat(0.0f), v) : v;  // a NaN stays one
  };
  with_tile_size(tile_size, [&](auto m) {
    const Planes<m, const T> planes{products, rows, channels};
    const Rows<T> cells{y, channels};
    for_each_tile(maps, m, threads, [&](Tile tile) {
      transform_rows<output_transform<m>>(
          channels, [&](int row, int column) { return planes.at(row, column, tile.index); },
          [&](int row, int column) { return cells.at(tile.cell(m, row, column)); }, finish);
    });
  });
}

// `y` is what the ReLU made, or null without one: where it is 0 there is no gradient. `of_bias`
// [channels] gets the sum over all cells; null where nobody wants it.
template <class T>
void winograd_output_adjoint(const T *upstream, const int64_t *sizes, int64_t count, int64_t images,
                             int64_t channels, int64_t tile_size, int64_t rows, const T *y,
                             T *of_bias, T *products, int threads) {
  const Maps maps{sizes, count, images, channels};
  const Vec zero = splat(0.0f);
  with_tile_size(tile_size, [&](auto m) {
    const Rows<const T> cells{upstream, channels};
    const Planes<m, T> planes{products, rows, channels};
    SumsOfChunks sums(maps, m);
    for_each_tile(maps, m, threads, [&](Tile tile) {
      transform_rows<output_adjoint<m>>(
          channels, [&](int row, int column) { return cells.at(tile.cell(m, row, column)); },
          [&](int row, int column) { return planes.at(row, column, tile.index); }, as_it_is,
          [&](Vec v, const T *here, int64_t channel, auto part) {
            if (y) v = select(equal(load(y + (here - upstream), part), zero), zero, v);
            if (of_bias) sums.add(tile.index, channel, v, part);
            return v;
          });
    });
    if (of_bias) sums.store_total(of_bias);
  });
}

// A weight itself is fp32: its planes are rounded once.
template <class T>
void winograd_weight(const float *weight, int64_t outs, int64_t ins, int64_t tile_size, T *planes,
                     int threads) {
  const Rows<const float> taps{weight, ins};
  with_tile_size(tile_size, [&](auto m) {
    const Planes<m, T> to{planes, outs, ins};
    parallel_for_chunks(outs, 1, threads, [&](int64_t out, int64_t) {
      transform_rows<weight_transform<m>>(
          ins, [&](int row, int column) { return taps.at(out * 9 + row * 3 + column); },
          [&](int row, int column) { return to.at(row, column, out); });
    });
  });
}

template <class T>
void winograd_weight_adjoint(const T *planes, int64_t outs, int64_t ins, int64_t tile_size,
                             float *weight, int threads) {
  const Rows<float> taps{weight, ins};
  with_tile_size(tile_size, [&](auto m) {
    const Planes<m, const T> from{planes, outs, ins};
    parallel_for_chunks(outs, 1, threads, [&](int64_t out, int64_t) {
      transform_rows<weight_adjoint<m>>(
          ins, [&](int row, int column) { return from.at(row, column, out); },
          [&](int row, int column) { return taps.at(out * 9 + row * 3 + column); });
    });
  });
}

}  // namespace

EXPORT(winograd_tiles)
EXPORT(winograd_tiles_adjoint)
EXPORT(winograd_output)
EXPORT(winograd_output_adjoint)
EXPORT(winograd_weight)
EXPORT(winograd_weight_adjoint)
