// Boxes (x1, y1, x2, y2): their overlap, matching anchors with them, and non-maximum suppression.
#pragma once

#include "parallel.h"
#include "sort.h"
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

constexpr int64_t background = -1, ignored = -2;
constexpr int64_t anchors_a_turn = 1024;

struct Matching {
  const float *anchors, *boxes;
  int64_t anchor_count, box_count;
  float high, low;

  // Each box's highest overlap with any anchor.
  void best_of_boxes(float *best, int threads) const {
    for (int64_t box = 0; box < box_count; ++box) best[box] = 0;
    in_turns(anchor_count, anchors_a_turn, threads, [&](int64_t first, int64_t last) {
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

inline void box_match(Matching matching, bool allow_low_quality, int64_t *matches, int threads) {
  Array<float> best(matching.box_count);
  if (allow_low_quality) matching.best_of_boxes(best.first, threads);
  in_turns(matching.anchor_count, anchors_a_turn, threads, [&](int64_t first, int64_t last) {
    for_each_vector(first, last, [&](int64_t at, auto part) {
      matching.match(at, part, allow_low_quality ? best.first : nullptr, matches);
    });
  });
}

// What greedy suppression has kept so far, corner by corner, so that a Vec of them is one load.
class Kept {
 public:
  explicit Kept(int64_t most) : most_(most), corners_(4 * most) {}

  bool overlap(const float *box, float threshold) const {
    Boxes same = Boxes::same(box);
    bool found = false;
    for (int64_t at = 0; at < count_ && !found; at += lanes) {
      auto check = [&](auto part) {
        Boxes kept = Boxes::of(load(corner(0) + at, part), load(corner(1) + at, part),
                               load(corner(2) + at, part), load(corner(3) + at, part));
        found = lanes_of(greater(iou(kept, same), splat(threshold))) & lanes_in(part);
      };
      if (at + lanes <= count_) {
        check(All{});
      } else {
        check(First{static_cast<int>(count_ - at)});
      }
    }
    return found;
  }

  void add(const float *box) {
    for (int number = 0; number < 4; ++number) corners_[number * most_ + count_] = box[number];
    ++count_;
  }

 private:
  const float *corner(int number) const { return corners_.first + number * most_; }

  int64_t most_, count_ = 0;
  Array<float> corners_;
};

// Sets keep[i] for every box that no kept box of its group and a higher score overlaps by more than
// the threshold. `by_score` is the order of the boxes, best first; `groups` may be null.
inline void suppress(const float *boxes, const int32_t *by_score, const uint32_t *groups,
                     int64_t count, float threshold, bool *keep, int threads) {
  Array<int32_t> order(count), starts(count + 1);
  for (int64_t at = 0; at < count; ++at) order[at] = by_score[at];
  int64_t group_count = 0;
  if (groups) sort_by(groups, order.first, count);
  for (int64_t at = 0; at < count; ++at) {
    bool is_first = at == 0 || (groups && groups[order[at]] != groups[order[at - 1]]);
    if (is_first) starts[group_count++] = at;
  }
  starts[group_count] = count;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (group_count > 1)
  for (int64_t group = 0; group < group_count; ++group) {
    Kept kept(starts[group + 1] - starts[group]);
    for (int64_t at = starts[group]; at < starts[group + 1]; ++at) {
      const float *box = boxes + 4 * order[at];
      keep[order[at]] = !kept.overlap(box, threshold);
      if (keep[order[at]]) kept.add(box);
    }
  }
}

// Writes the boxes that are kept, best first, and returns how many they are.
inline int64_t nms(const float *boxes, const float *scores, const uint32_t *groups, int64_t count,
                   float threshold, int64_t *kept, int threads) {
  Array<int32_t> by_score(count);
  Array<bool> keep(count);
  best_first(scores, by_score.first, count);
  suppress(boxes, by_score.first, groups, count, threshold, keep.first, threads);
  int64_t found = 0;
  for (int64_t at = 0; at < count; ++at) {
    if (keep[by_score[at]]) kept[found++] = by_score[at];
  }
  return found;
}

}  // namespace
