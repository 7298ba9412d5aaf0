// Batch norm of fixed statistics: y = x scale + shift for each channel, then what usually follows
// in a residual network, + residual and max(·, 0), before y leaves the registers.
#pragma once

#include "export.h"
#include "parallel.h"
#include "vec.h"

namespace {

// Elements as [outer, channels, inner]: inner is 1 where channels are innermost, as in NHWC.
struct Layout {
  int64_t outer, channels, inner;

  // Calls body(first, last, channel) for runs of elements: one channel's, or, where inner is 1,
  // one row of all channels, beginning at channel 0.
  template <class Body> void for_each_run(int threads, Body body) const {
    const bool rows = inner == 1;
    const int64_t length = rows ? channels : inner, runs = rows ? outer : outer * channels;
    const int64_t runs_per_chunk = chunk_size / (length + 1) + 1;
    parallel_for_chunks(runs, runs_per_chunk, threads, [&](int64_t first, int64_t last) {
      for (int64_t run = first; run < last; ++run) {
        body(run * length, (run + 1) * length, rows ? 0 : run % channels);
      }
    });
  }
};

// A number for each element of a run: each its own, or the channel's.
struct PerElement {
  const float *of_first;
  template <class Part> Vec at(int64_t offset, Part part) const {
    return load(of_first + offset, part);
  }
};
struct PerRun {
  Vec value;
  template <class Part> Vec at(int64_t, Part) const { return value; }
};

template <class Body> void with_channel(bool rows, Body body) {
  if (rows) {
    body([](const float *of_channel) { return PerElement{of_channel}; });
  } else {
    body([](const float *of_channel) { return PerRun{splat(*of_channel)}; });
  }
}

template <class T>
void frozen_batch_norm_forward(const T *x, int64_t outer, int64_t channels, int64_t inner,
                               const float *scale, const float *shift, const T *residual, bool relu,
                               T *y, int threads) {
  const Layout layout{outer, channels, inner};
  with_channel(layout.inner == 1, [&](auto of) {
    layout.for_each_run(threads, [&](int64_t first, int64_t last, int64_t channel) {
      auto scales = of(scale + channel), shifts = of(shift + channel);
      for_each_vector(0, last - first, [&](int64_t at, auto part) {
        Vec v = fma(load(x + first + at, part), scales.at(at, part), shifts.at(at, part));
        if (residual) v = v + load(residual + first + at, part);
        if (relu) v = max(splat(0.0f), v);
        store(y + first + at, v, part);
      });
    });
  });
}

// `y` is null without relu, `grad_residual` where nobody wants them.
template <class T>
void frozen_batch_norm_backward(const T *upstream, int64_t outer, int64_t channels, int64_t inner,
                                const float *scale, const T *y, T *grad_input, T *grad_residual,
                                int threads) {
  const Layout layout{outer, channels, inner};
  const Vec zero = splat(0.0f);
  with_channel(layout.inner == 1, [&](auto of) {
    layout.for_each_run(threads, [&](int64_t first, int64_t last, int64_t channel) {
      auto scales = of(scale + channel);
      for_each_vector(0, last - first, [&](int64_t at, auto part) {
        Vec v = load(upstream + first + at, part);
        if (y) v = select(equal(load(y + first + at, part), zero), zero, v);
        if (grad_residual) store(grad_residual + first + at, v, part);
        store(grad_input + first + at, v * scales.at(at, part), part);
      });
    });
  });
}

}  // namespace

EXPORT(frozen_batch_norm_forward)
EXPORT(frozen_batch_norm_backward)
