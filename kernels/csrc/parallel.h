// Work shared between threads in chunks of a fixed size: what a chunk computes depends on neither
// their number nor their order.
#pragma once

#include <cstdint>

namespace {

constexpr int64_t chunk_size = 16384;  // elements: large beside a chunk's cost, small beside L2

// Calls body(first, last) for [0, count) in chunks of `size`.
template <class Body>
void parallel_for_chunks(int64_t count, int64_t size, int threads,
                                                Body body) {
  const int64_t chunks = (count + size - 1) / size;
#pragma omp parallel for schedule(static) num_threads(threads) if (chunks > 1)
  for (int64_t first = 0; first < chunks * size; first += size) {
    body(first, first + size < count ? first + size : count);
  }
}

// The same for a body that returns a number: their sum, always added in the same order.
template <class Body> double sum_of_chunks(int64_t count, int64_t size, int threads, Body body) {
  double *sums = new double[(count + size - 1) / size];
  parallel_for_chunks(count, size, threads,
           [&](int64_t first, int64_t last) { sums[first / size] = body(first, last); });
  double total = 0;
  for (int64_t number = 0; number * size < count; ++number) total += sums[number];
  delete[] sums;
  return total;
}

}  // namespace
