// Matching anchors with boxes by their overlap.
#pragma once

#include "boxes.h"
#include "export.h"
#include "parallel.h"
#include "sort.h"

namespace {

constexpr int64_t background = -1, ignored = -2;
constexpr int64_t anchors_per_chunk = 1024;

struct Matching {
  const float *anchors, *boxes;
  int64_t anchor_count, box_count;
  float high, low;

  // Each box's highest overlap with any anchor.
  void best_of_boxes(float *best, int threads) const {
    for (int64_t box = 0; box < box_count; ++box) best[box] = 0;
    parallel_for_chunks(anchor_count, anchors_per_chunk, threads, [&](int64_t first, int64_t last) {
      Array<Vec> highest(box_count);
      for (int64_t box = 0; box < box_count; ++box) highest[box] = splat(0.0f);
      for_each_vector(first, last, [&](int64_t at, auto part) {
        Boxes some = Boxes::next(anchors + 4 * at, part);
        for (int64_t box = 0; box < box_count; ++box) {
          // Of a NaN and a number, max returns its second argument.
          highest[box] = max(iou(Boxes::same(boxes + 4 * box), some), highest[box]);
        }
      });
#pragma omp critical(best_of_boxes)
      for (int64_t box = 0; box < box_count; ++box) {
        best[box] = largest(max(splat(best[box]), highest[box]));
      }
    });
  }

  // `best` is null unless each box is to have the anchors of its highest overlap.
  template <class Part>
  void match(int64_t at, Part part, const float *best, int64_t *matches) const {
    Boxes some = Boxes::next(anchors + 4 * at, part);
    Vec overlap = splat(-1.0f), box_of = splat(0.0f);
    unsigned chosen = 0;
    for (int64_t box = 0; box < box_count; ++box) {
      Vec other = iou(Boxes::same(boxes + 4 * box), some);
      Mask better = greater(other, overlap);
      overlap = select(better, other, overlap);
      box_of = select(better, splat(static_cast<float>(box)), box_of);
      if (best) chosen |= lanes_of(equal(other, splat(best[box])));
    }
    float overlaps[lanes], numbers[lanes];
    store(overlaps, overlap, All{});
    store(numbers, box_of, All{});
    for (int lane = 0; lane < count_of(part); ++lane) {
      int64_t box = static_cast<int64_t>(numbers[lane]);
      if (!(chosen >> lane & 1)) {
        box = overlaps[lane] < low ? background : overlaps[lane] < high ? ignored : box;
      }
      matches[at + lane] = box;
    }
  }
};

inline void box_match(const float *anchors, int64_t anchor_count, const float *boxes,
                      int64_t box_count, float high, float low, bool allow_low_quality,
                      int64_t *matches, int threads) {
  const Matching matching{anchors, boxes, anchor_count, box_count, high, low};
  Array<float> best(matching.box_count);
  if (allow_low_quality) matching.best_of_boxes(best.first, threads);
  auto match_chunk = [&](int64_t first, int64_t last) {
    for_each_vector(first, last, [&](int64_t at, auto part) {
      matching.match(at, part, allow_low_quality ? best.first : nullptr, matches);
    });
  };
  parallel_for_chunks(anchor_count, anchors_per_chunk, threads, match_chunk);
}

}  // namespace

EXPORT_F32(box_match)
