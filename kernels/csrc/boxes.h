// Boxes (x1, y1, x2, y2) and their overlap.
#pragma once

#include "vec.h"

namespace {

// As many boxes as a Vec has lanes.
struct Boxes {
  Vec x1, y1, x2, y2, area;

  static Boxes of(Vec x1, Vec y1, Vec x2, Vec y2) {
    return {x1, y1, x2, y2, (x2 - x1) * (y2 - y1)};
  }
  static Boxes same(const float *box) {
    return of(splat(box[0]), splat(box[1]), splat(box[2]), splat(box[3]));
  }
  template <class Part> static Boxes next(const float *boxes, Part part) {
    float corners[4][lanes] = {};
    for (int lane = 0; lane < count_of(part); ++lane) {
      for (int corner = 0; corner < 4; ++corner) corners[corner][lane] = boxes[4 * lane + corner];
    }
    return of(load(corners[0], All{}), load(corners[1], All{}), load(corners[2], All{}),
              load(corners[3], All{}));
  }
};

// Intersection over union, rounding for rounding as plain torch works it out: thresholds and ties
// then fall the same way.
inline Vec iou(const Boxes &a, const Boxes &b) {
  Vec width = max(splat(0.0f), min(a.x2, b.x2) - max(a.x1, b.x1));
  Vec height = max(splat(0.0f), min(a.y2, b.y2) - max(a.y1, b.y1));
  Vec intersection = width * height;
  return intersection / (a.area + b.area - intersection);
}

}  // namespace
