// What one variant exports. Compiled once for each, with VARIANT set to its name and the compiler
// set to its instructions; kernels/library.py holds the same signatures.

#include "boxes.h"
#include "detection.h"
#include "focal_loss.h"
#include "frozen_batch_norm.h"
#include "unfold.h"

#define JOIN(name, type, variant) name##_##type##_##variant
#define NAME(name, type, variant) JOIN(name, type, variant)
#define EXPORT(name, type) \
  extern "C" __attribute__((visibility("default"))) auto NAME(name, type, VARIANT)

#define FOR_TYPE(type, T)                                                                        \
  EXPORT(focal_labels_forward, type)                                                             \
  (const T *logits, const int64_t *labels, int64_t rows, int64_t columns, int64_t background,    \
   int64_t ignored, float alpha, float gamma, T *losses, double *sum, int threads) {             \
    return labels_forward(logits, {labels, rows, columns, background, ignored}, alpha, gamma,    \
                          losses, sum, threads);                                                 \
  }                                                                                              \
  EXPORT(focal_labels_backward, type)                                                            \
  (const T *logits, const int64_t *labels, int64_t rows, int64_t columns, int64_t background,    \
   int64_t ignored, float alpha, float gamma, const T *upstream, float scale, T *slopes,         \
   int threads) {                                                                                \
    labels_backward(logits, {labels, rows, columns, background, ignored}, alpha, gamma,          \
                    upstream, scale, slopes, threads);                                           \
  }                                                                                              \
  EXPORT(focal_dense_forward, type)                                                              \
  (const T *logits, const T *targets, int64_t count, float alpha, float gamma, T *losses,        \
   double *sum, int threads) {                                                                   \
    dense_forward(logits, targets, count, alpha, gamma, losses, sum, threads);                   \
  }                                                                                              \
  EXPORT(focal_dense_backward, type)                                                             \
  (const T *logits, const T *targets, int64_t count, float alpha, float gamma,                   \
   const T *upstream, float scale, T *slopes, int threads) {                                     \
    dense_backward(logits, targets, count, alpha, gamma, upstream, scale, slopes, threads);      \
  }                                                                                              \
  EXPORT(frozen_batch_norm_forward, type)                                                        \
  (const T *x, int64_t outer, int64_t channels, int64_t inner, const float *scale,               \
   const float *shift, const T *residual, int relu, T *y, int threads) {                         \
    frozen_forward(x, {outer, channels, inner}, scale, shift, residual, relu, y, threads);       \
  }                                                                                              \
  EXPORT(frozen_batch_norm_backward, type)                                                       \
  (const T *upstream, int64_t outer, int64_t channels, int64_t inner, const float *scale,        \
   const T *y, T *slopes, T *slopes_of_residual, int threads) {                                  \
    frozen_backward(upstream, {outer, channels, inner}, scale, y, slopes, slopes_of_residual,    \
                    threads);                                                                    \
  }                                                                                              \
  EXPORT(detection_postprocess, type)                                                            \
  (const T *logits, const T *offsets, const float *anchors, const int64_t *level_sizes,          \
   int64_t levels, int64_t classes, float height, float width, float logit_threshold,            \
   float largest_log, int64_t candidates_per_level, float iou_threshold, int64_t detections,     \
   float *boxes, float *scores, int64_t *labels, int threads) {                                  \
    Postprocess options{classes,       height,          width,               logit_threshold,    \
                        largest_log,   iou_threshold,   candidates_per_level, detections};       \
    return detection_postprocess(logits, offsets, anchors, level_sizes, levels, options, boxes,  \
                                 scores, labels, threads);                                       \
  }                                                                                              \
  EXPORT(unfold, type)                                                                           \
  (const T *x, const int64_t *sizes, int64_t maps, int64_t images, int64_t channels,             \
   T *neighbours, int threads) {                                                                 \
    unfold(x, {sizes, maps, images, channels}, neighbours, threads);                             \
  }                                                                                              \
  EXPORT(fold, type)                                                                             \
  (const T *neighbours, const int64_t *sizes, int64_t maps, int64_t images, int64_t channels,    \
   T *x, int threads) {                                                                          \
    fold(neighbours, {sizes, maps, images, channels}, x, threads);                               \
  }

FOR_TYPE(f32, float)
FOR_TYPE(bf16, BFloat16)

EXPORT(transpose, f32)(const uint32_t *x, int64_t rows, int64_t columns, uint32_t *y, int threads) {
  transpose(x, rows, columns, y, threads);
}

EXPORT(transpose, bf16)(const uint16_t *x, int64_t rows, int64_t columns, uint16_t *y, int threads) {
  transpose(x, rows, columns, y, threads);
}

EXPORT(box_match, f32)
(const float *anchors, int64_t anchor_count, const float *boxes, int64_t box_count, float high,
 float low, int allow_low_quality, int64_t *matches, int threads) {
  box_match({anchors, boxes, anchor_count, box_count, high, low}, allow_low_quality, matches,
            threads);
}

EXPORT(nms, f32)
(const float *boxes, const float *scores, const uint32_t *groups, int64_t count, float threshold,
 int64_t *kept, int threads) {
  return nms(boxes, scores, groups, count, threshold, kept, threads);
}
