// Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1) on fp32 masters of weights, each number read
// and written once: what layers use of a weight, and its gradient, may be bf16.
#pragma once

#include <cmath>

#include "export.h"
#include "parallel.h"
#include "vec.h"

namespace {

struct Adam {
  float mean_rate, square_rate;  // 1 - beta_1, 1 - beta_2
  float length;                  // learning rate / (1 - beta_1^step)
  float root;                    // sqrt(1 - beta_2^step)
  float eps;

  // Updates numbers from `first` to `last`; `weight` is null where the master itself is it. Nobody
  // reads it before the next step: it goes past the caches, if it is aligned for that.
  template <class T>
  void operator()(T *weight, const T *gradient, float *master, float *mean, float *square,
                  int64_t first, int64_t last) const {
    const bool streams = weight && reinterpret_cast<uintptr_t>(weight) % 64 == 0;
    for_each_vector(first, last, [&](int64_t at, auto part) {
      fetch_page_ahead(gradient + at);
      fetch_page_ahead(master + at);
      fetch_page_ahead(mean + at);
      fetch_page_ahead(square + at);
      const Vec g = load(gradient + at, part);
      Vec m = load(mean + at, part), s = load(square + at, part), w = load(master + at, part);
      m = fma(splat(mean_rate), g - m, m);
      // In this order no square of a gradient overflows that a mean of squares can hold, and what
      // did stays infinite, as in torch: infinity less itself is no number.
      const Vec grown = fma(splat(square_rate) * g, g, s);
      s = select(equal(s, splat(INFINITY)), grown, fma(splat(-square_rate), s, grown));
      w = w - splat(length) * m / (square_root(s) / splat(root) + splat(eps));
      store(mean + at, m, part);
      store(square + at, s, part);
      store(master + at, w, part);
      if (streams) stream_store(weight + at, w, part);
      else if (weight) store(weight + at, w, part);
    });
    if (streams) finish_streams();
  }
};

// A row of `addresses` for each tensor: weight, gradient, master, mean, square. The weight's is 0
// where the master itself is it and the gradient fp32; else both are bf16.
void adam_step(const int64_t *addresses, const int64_t *counts, int64_t tensors, float mean_rate,
               float square_rate, float length, float root, float eps, int threads) {
  const Adam adam{mean_rate, square_rate, length, root, eps};
  int64_t *ends = new int64_t[tensors], chunks = 0;  // chunks of a tensor and all before it
  for (int64_t k = 0; k < tensors; ++k) {
    ends[k] = chunks += (counts[k] + chunk_size - 1) / chunk_size;
  }
  parallel_for_chunks(chunks, 1, threads, [&](int64_t chunk, int64_t) {
    int64_t k = 0;
    for (int64_t above = tensors; k < above;) {  // the first tensor that ends behind it
      const int64_t middle = (k + above) / 2;
      if (ends[middle] > chunk) above = middle;
      else k = middle + 1;
    }
    const int64_t first = (chunk - (k ? ends[k - 1] : 0)) * chunk_size;
    const int64_t last = first + chunk_size < counts[k] ? first + chunk_size : counts[k];
    const int64_t *row = addresses + 5 * k;
    float *master = reinterpret_cast<float *>(row[2]), *mean = reinterpret_cast<float *>(row[3]),
          *square = reinterpret_cast<float *>(row[4]);
    if (row[0]) {
      adam(reinterpret_cast<BFloat16 *>(row[0]), reinterpret_cast<const BFloat16 *>(row[1]), master,
           mean, square, first, last);
    } else {
      adam(static_cast<float *>(nullptr), reinterpret_cast<const float *>(row[1]), master, mean,
           square, first, last);
    }
  });
  delete[] ends;
}

}  // namespace

EXPORT_F32(adam_step)
