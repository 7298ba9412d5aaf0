// From a detector's outputs for one image to its detections.
#pragma once

#include "export.h"
#include "parallel.h"
#include "suppression.h"

namespace {

// One pyramid level's candidates: the (anchor, class) pairs above a logit, in order.
struct Found {
  int64_t count;
  Array<int64_t> pairs;
};

template <class T> Found pairs_above(const T *logits, int64_t count, float least, int threads) {
  const int64_t chunks = (count + chunk_size - 1) / chunk_size;
  Array<int32_t *> of_chunk(chunks);
  Array<int64_t> ends(chunks + 1);
  parallel_for_chunks(count, chunk_size, threads, [&](int64_t first, int64_t last) {
    int32_t found[chunk_size], number = 0;
    for_each_vector(first, last, [&](int64_t at, auto part) {
      unsigned above = lanes_of(greater(load(logits + at, part), splat(least))) & lanes_in(part);
      for (; above; above &= above - 1) found[number++] = at - first + __builtin_ctz(above);
    });
    ends[first / chunk_size + 1] = number;
    of_chunk[first / chunk_size] = new int32_t[number];
    memcpy(of_chunk[first / chunk_size], found, number * sizeof *found);
  });
  ends[0] = 0;
  for (int64_t number = 0; number < chunks; ++number) ends[number + 1] += ends[number];
  Found all{ends[chunks], Array<int64_t>(ends[chunks])};
  for (int64_t number = 0; number < chunks; ++number) {
    for (int64_t at = ends[number]; at < ends[number + 1]; ++at) {
      all.pairs[at] = number * chunk_size + of_chunk[number][at - ends[number]];
    }
    delete[] of_chunk[number];
  }
  return all;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + __builtin_expf(-x)); }

// In both of these NaN stays NaN.
inline float at_most(float v, float high) { return v > high ? high : v; }
inline float between(float low, float v, float high) { return v < low ? low : at_most(v, high); }

// The box that offsets mean (Girshick et al. 2014, appendix C), cut to the image.
template <class T>
void decode(const T *offsets, const float *anchor, float largest_log, float height, float width,
            float *box) {
  const float limits[2] = {width, height};
  for (int axis = 0; axis < 2; ++axis) {
    float size = anchor[axis + 2] - anchor[axis];
    float centre = anchor[axis] + 0.5f * size + number(offsets[axis]) * size;
    float log_scale = number(offsets[axis + 2]);
    float half = 0.5f * size * __builtin_expf(at_most(log_scale, largest_log));
    box[axis] = between(0, centre - half, limits[axis]);
    box[axis + 2] = between(0, centre + half, limits[axis]);
  }
}

struct Postprocess {
  int64_t classes;
  float height, width, logit_threshold, largest_log, iou_threshold;
  int64_t candidates_per_level, detections;
};

template <class T> class Candidates {
 public:
  Candidates(const Postprocess &options, int64_t most)
      : options_(options), boxes_(4 * most), scores_(most), labels_(most) {}

  // Adds the best pairs of `anchor_count` anchors.
  void add(const T *logits, const T *offsets, const float *anchors, int64_t anchor_count,
           int threads) {
    const int64_t classes = options_.classes;
    Found found =
        pairs_above(logits, anchor_count * classes, options_.logit_threshold, threads);
    Array<float> scores(found.count);
    Array<int32_t> order(found.count);
    for (int64_t at = 0; at < found.count; ++at) {
      scores[at] = sigmoid(number(logits[found.pairs[at]]));
    }
    best_first(scores.first, order.first, found.count);
    const int64_t most = options_.candidates_per_level;
    for (int64_t at = 0; at < found.count && at < most; ++at, ++count_) {
      int64_t pair = found.pairs[order[at]], anchor = pair / classes;
      scores_[count_] = scores[order[at]];
      labels_[count_] = pair % classes;
      decode(offsets + 4 * anchor, anchors + 4 * anchor, options_.largest_log, options_.height,
             options_.width, boxes_.first + 4 * count_);
    }
  }

  // Writes what suppression within each class leaves, best first, and returns how many.
  int64_t suppress(float *boxes, float *scores, int64_t *labels, int threads) const {
    Array<int64_t> kept(count_);
    int64_t found = nms(boxes_.first, scores_.first, labels_.first, count_,
                        options_.iou_threshold, kept.first, threads);
    if (found > options_.detections) found = options_.detections;
    for (int64_t at = 0; at < found; ++at) {
      memcpy(boxes + 4 * at, boxes_.first + 4 * kept[at], 4 * sizeof *boxes);
      scores[at] = scores_[kept[at]];
      labels[at] = labels_[kept[at]];
    }
    return found;
  }

 private:
  Postprocess options_;
  int64_t count_ = 0;
  Array<float> boxes_, scores_;
  Array<uint32_t> labels_;
};

// The most candidates that levels can have together, however many a level may have.
inline int64_t most_candidates(const int64_t *level_sizes, int64_t levels,
                               const Postprocess &options) {
  int64_t most = 0;
  for (int64_t level = 0; level < levels; ++level) {
    int64_t pairs = level_sizes[level] * options.classes;
    most += pairs < options.candidates_per_level ? pairs : options.candidates_per_level;
  }
  return most;
}

template <class T>
int64_t detection_postprocess(const T *logits, const T *offsets, const float *anchors,
                              const int64_t *level_sizes, int64_t levels, int64_t classes,
                              float height, float width, float logit_threshold, float largest_log,
                              int64_t candidates_per_level, float iou_threshold, int64_t detections,
                              float *boxes, float *scores, int64_t *labels, int threads) {
  const Postprocess options{classes,       height,        width,                logit_threshold,
                            largest_log,   iou_threshold, candidates_per_level, detections};
  Candidates<T> candidates(options, most_candidates(level_sizes, levels, options));
  int64_t first = 0;
  for (int64_t level = 0; level < levels; ++level) {
    candidates.add(logits + first * options.classes, offsets + 4 * first, anchors + 4 * first,
                   level_sizes[level], threads);
    first += level_sizes[level];
  }
  return candidates.suppress(boxes, scores, labels, threads);
}

}  // namespace

EXPORT(detection_postprocess)
