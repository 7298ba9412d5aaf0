// Greedy non-maximum suppression.
#pragma once

#include "boxes.h"
#include "sort.h"

namespace {

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

// Writes the boxes that are kept, best first, and returns how many they are; `groups` may be null.
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
