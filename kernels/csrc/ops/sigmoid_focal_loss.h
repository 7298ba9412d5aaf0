// Sigmoid focal loss of targets from 0 to 1, one for each logit.
#pragma once

#include "export.h"
#include "focal_loss.h"

namespace {

template <class T>
void sigmoid_focal_loss_forward(const T *logits, const T *targets, int64_t count, float alpha,
                                float gamma, T *losses, double *sum, int threads) {
  auto target_at = [=](int64_t at, auto part) { return Soft{load(targets + at, part)}; };
  *sum = with_focal<T>(alpha, gamma, 1, [&](auto focal) {
    return sum_of_chunks(count, chunk_size, threads, [&](int64_t begin, int64_t end) {
      return losses_of(focal, logits, losses, begin, end, target_at);
    });
  });
}

template <class T>
void sigmoid_focal_loss_backward(const T *logits, const T *targets, int64_t count, float alpha,
                                 float gamma, const T *upstream, float scale, T *grad_input,
                                 int threads) {
  auto target_at = [=](int64_t at, auto part) { return Soft{load(targets + at, part)}; };
  with_focal<T>(alpha, gamma, scale, [&](auto focal) {
    with_stores(grad_input, count, [&](auto streamed) {
      parallel_for_chunks(count, chunk_size, threads, [&](int64_t begin, int64_t end) {
        gradients_of(streamed, focal, logits, upstream, grad_input, begin, end, target_at);
      });
    });
  });
}

}  // namespace

EXPORT(sigmoid_focal_loss_forward)
EXPORT(sigmoid_focal_loss_backward)
