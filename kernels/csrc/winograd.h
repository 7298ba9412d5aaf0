// Winograd's minimal filtering F(m x m, 3 x 3): m x m outputs of a 3x3 convolution from (m + 2)^2
// products instead of 9 m^2 (Lavin and Gray, arXiv 1509.09308). All of its transforms, and their
// adjoints for the gradients, are P X P^T with a small constant P; an element of X is a row of
// channels.
#pragma once

#include "maps.h"

namespace {

// What turns `ins` rows into `outs`.
template <int outs, int ins> struct Transform {
  static constexpr int from = ins, to = outs;
  float at[outs][ins];

  constexpr Transform<ins, outs> adjoint() const {
    Transform<ins, outs> turned{};
    for (int out = 0; out < outs; ++out) {
      for (int in = 0; in < ins; ++in) turned.at[in][out] = at[out][in];
    }
    return turned;
  }
};

// For each m, the paper's B^T of inputs, G of weights and A^T of outputs.
template <int m> struct Winograd;

template <> struct Winograd<2> {
  static constexpr Transform<4, 4> of_input{
      {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}};
  static constexpr Transform<4, 3> of_weight{
      {{1, 0, 0}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0, 0, 1}}};
  static constexpr Transform<2, 4> of_output{{{1, 1, 1, 0}, {0, 1, -1, -1}}};
};

template <> struct Winograd<4> {
  static constexpr Transform<6, 6> of_input{{{4, 0, -5, 0, 1, 0},
                                             {0, -4, -4, 1, 1, 0},
                                             {0, 4, -4, -1, 1, 0},
                                             {0, -2, -1, 2, 1, 0},
                                             {0, 2, -1, -2, 1, 0},
                                             {0, 4, 0, -5, 0, 1}}};
  static constexpr Transform<6, 3> of_weight{{{1.0f / 4, 0, 0},
                                              {-1.0f / 6, -1.0f / 6, -1.0f / 6},
                                              {-1.0f / 6, 1.0f / 6, -1.0f / 6},
                                              {1.0f / 24, 1.0f / 12, 1.0f / 6},
                                              {1.0f / 24, -1.0f / 12, 1.0f / 6},
                                              {0, 0, 1}}};
  static constexpr Transform<4, 6> of_output{
      {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}}};
};

// A tile makes m x m cells from the (m + 2) x (m + 2) around them, so its outermost inputs are also
// its neighbours' cells. This is the adjoint of the input's transform with what the neighbours add:
// row 0 is the last of the tile before, then come the tile's own, then the first of the next tile.
// No other row of a neighbour adds anything, since the first and last column of B^T have one entry.
template <int m> constexpr Transform<m, m + 4> gathered_adjoint() {
  constexpr auto input = Winograd<m>::of_input;
  Transform<m, m + 4> made{};
  for (int cell = 0; cell < m; ++cell) {
    for (int row = 0; row < m + 2; ++row) made.at[cell][row + 1] = input.at[row][cell + 1];
  }
  made.at[0][0] = input.at[m + 1][m + 1];
  made.at[m - 1][m + 3] = input.at[0][0];
  return made;
}

// A row, or column, that the gathered adjoint takes.
template <int m> struct Gathered {
  int row;
  int tile() const { return row == 0 ? -1 : row == m + 3 ? 1 : 0; }
  int of_tile() const { return row == 0 ? m + 1 : row == m + 3 ? 0 : row - 1; }
};

// The sum of the terms of row `out` of P. Terms of 0 are left out, by the compiler.
template <auto &P> inline Vec combine(const Vec *terms, int out) {
  Vec sum = splat(0.0f);
#pragma GCC unroll 8
  for (int in = 0; in < P.from; ++in) {
    if (const float factor = P.at[out][in]; factor == 1) {
      sum = sum + terms[in];
    } else if (factor == -1) {
      sum = sum - terms[in];
    } else if (factor != 0) {
      sum = fma(splat(factor), terms[in], sum);
    }
  }
  return sum;
}

// y = P x P^T. A function of its own, so that it is compiled once for all that loads and stores.
template <auto &P> [[gnu::noinline]] void transform(const Vec *x, Vec *y) {
  Vec half[P.to][P.from];
  for (int column = 0; column < P.from; ++column) {
    Vec terms[P.from];
#pragma GCC unroll 8
    for (int row = 0; row < P.from; ++row) terms[row] = x[row * P.from + column];
#pragma GCC unroll 8
    for (int row = 0; row < P.to; ++row) half[row][column] = combine<P>(terms, row);
  }
  for (int row = 0; row < P.to; ++row) {
#pragma GCC unroll 8
    for (int column = 0; column < P.to; ++column) {
      y[row * P.to + column] = combine<P>(half[row], column);
    }
  }
}

inline constexpr auto as_it_lies = [](Vec v, auto, int64_t, auto) { return v; };
inline constexpr auto as_it_is = [](Vec v, int64_t, auto) { return v; };

// Transforms rows of channels, which lie at from(row, column) and to(row, column); null is a row of
// zeros, or one that nobody wants. finish(vector, channel, part) has the last say on what is stored,
// begin(vector, address, channel, part) on what was loaded.
template <auto &P, class From, class To, class Finish = decltype(as_it_is),
          class Begin = decltype(as_it_lies)>
inline void transform_rows(int64_t channels, From from, To to, Finish finish = as_it_is,
                           Begin begin = as_it_lies) {
  decltype(from(0, 0)) given[P.from * P.from];
  decltype(to(0, 0)) made[P.to * P.to];
  for (int at = 0; at < P.from * P.from; ++at) given[at] = from(at / P.from, at % P.from);
  for (int at = 0; at < P.to * P.to; ++at) made[at] = to(at / P.to, at % P.to);
  for_each_vector(0, channels, [&](int64_t channel, auto part) {
    Vec x[P.from * P.from], y[P.to * P.to];
    for (int at = 0; at < P.from * P.from; ++at) {
      x[at] = splat(0.0f);
      if (given[at]) {
        const auto *here = given[at] + channel;
        x[at] = begin(load(here, part), here, channel, part);
      }
    }
    transform<P>(x, y);
    for (int at = 0; at < P.to * P.to; ++at) {
      if (made[at]) store(made[at] + channel, finish(y[at], channel, part), part);
    }
  });
}

// A tile of m x m cells of a map.
struct Tile {
  int64_t index;       // among all tiles
  int64_t first_cell;  // the index of its map's first cell
  int64_t row, column;
  int64_t rows, columns, tiles_down, tiles_across;  // of its map

  // The index of the cell `down` and `right` of its first, or -1 outside the map.
  int64_t cell(int m, int64_t down, int64_t right) const {
    const int64_t at_row = row * m + down, at_column = column * m + right;
    const bool inside = at_row >= 0 && at_row < rows && at_column >= 0 && at_column < columns;
    return inside ? first_cell + at_row * columns + at_column : -1;
  }

  // The index of the tile `down` and `right` of it, or -1 outside the map.
  int64_t beside(int64_t down, int64_t right) const {
    const bool inside = row + down >= 0 && row + down < tiles_down && column + right >= 0 &&
                        column + right < tiles_across;
    return inside ? index + down * tiles_across + right : -1;
  }
};

// Tiles run through each image's maps, one after the other, and through each map row by row.
inline int64_t tiles_of(const Maps &maps, int m) {
  int64_t total = 0;
  for (int64_t map = 0; map < maps.count; ++map) {
    total += ((maps.sizes[2 * map] + m - 1) / m) * ((maps.sizes[2 * map + 1] + m - 1) / m);
  }
  return maps.images * total;
}

// How many of them are a chunk of work.
inline int64_t tiles_of_chunk(const Maps &maps, int m) {
  constexpr int64_t fewest = 8;  // what a chunk sums up is small beside them
  const int64_t fitting = chunk_size / (m * m * maps.channels + 1) + 1;
  return fitting < fewest ? fewest : fitting;
}

template <class Body> void for_each_tile(const Maps &maps, int m, int threads, Body body) {
  const int64_t tiles = tiles_of(maps, m), of_chunk = tiles_of_chunk(maps, m);
  parallel_for_chunks(tiles, of_chunk, threads, [&](int64_t first, int64_t last) {
    const int64_t of_image = tiles / maps.images, cells = maps.cells();
    for (int64_t index = first; index < last; ++index) {
      Tile tile{index, index / of_image * cells, 0, 0, 0, 0, 0, 0};
      int64_t in_map = index % of_image;
      for (const int64_t *size = maps.sizes;; size += 2) {
        tile.rows = size[0], tile.columns = size[1];
        tile.tiles_down = (size[0] + m - 1) / m, tile.tiles_across = (size[1] + m - 1) / m;
        if (in_map < tile.tiles_down * tile.tiles_across) break;
        in_map -= tile.tiles_down * tile.tiles_across;
        tile.first_cell += size[0] * size[1];
      }
      tile.row = in_map / tile.tiles_across, tile.column = in_map % tile.tiles_across;
      body(tile);
    }
  });
}

// Sums over rows of channels, in fp32: each chunk of tiles has its own, which are added in order.
class SumsOfChunks {
 public:
  SumsOfChunks(const Maps &maps, int m)
      : of_chunk(tiles_of_chunk(maps, m)),
        chunks((tiles_of(maps, m) + of_chunk - 1) / of_chunk),
        channels(maps.channels),
        sums(new float[chunks * channels]()) {}
  SumsOfChunks(const SumsOfChunks &) = delete;
  ~SumsOfChunks() { delete[] sums; }

  template <class Part> void add(int64_t tile, int64_t channel, Vec v, Part part) {
    float *sum = sums + tile / of_chunk * channels + channel;
    store(sum, load(sum, part) + v, part);
  }

  template <class T> void store_total(T *to) const {
    for_each_vector(0, channels, [&](int64_t channel, auto part) {
      Vec total = splat(0.0f);
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        total = total + load(sums + chunk * channels + channel, part);
      }
      store(to + channel, total, part);
    });
  }

 private:
  const int64_t of_chunk, chunks, channels;
  float *const sums;
};

// Rows of channels, by their index; null for index -1.
template <class T> struct Rows {
  T *data;
  int64_t channels;
  T *at(int64_t index) const { return index < 0 ? nullptr : data + index * channels; }
};

// Such rows for each of the (m + 2)^2 planes.
template <int m, class T> struct Planes {
  T *data;
  int64_t rows, channels;
  T *at(int plane_row, int plane_column, int64_t index) const {
    const int64_t plane = plane_row * (m + 2) + plane_column;
    return Rows<T>{data + plane * rows * channels, channels}.at(index);
  }
};

}  // namespace
