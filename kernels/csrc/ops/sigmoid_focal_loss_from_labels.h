// Sigmoid focal loss of rows that have one class each, or none, or don't count.
#pragma once

#include "export.h"
#include "focal_loss.h"

namespace {

struct Ignored {};

// Class ids of rows of decisions: every decision is negative but that of the row's class.
struct Labels {
  const int64_t *of_row;
  int64_t rows, columns, background, ignored;

  // The first row whose label is neither a class nor one of the two others; -1 if there is none.
  int64_t first_wrong(int threads) const {
    int64_t first = rows;
#pragma omp parallel for num_threads(threads) reduction(min : first) if (rows > chunk_size)
    for (int64_t row = 0; row < rows; ++row) {
      int64_t label = of_row[row];
      bool is_wrong = label != background && label != ignored && (label < 0 || label >= columns);
      if (is_wrong && row < first) first = row;
    }
    return first < rows ? first : -1;
  }

  // About `chunk_size` decisions, and a multiple of 16 rows, which keeps blocks aligned.
  int64_t rows_per_chunk() const { return (chunk_size / (columns + 1) / 16 + 1) * 16; }

  // Calls visit(begin, end, Negative, Positive or Ignored) until [first, last) rows are covered.
  template <class Visit> void cover(int64_t first, int64_t last, Visit visit) const {
    int64_t begin = first * columns;
    for (int64_t row = first; row < last; ++row) {
      int64_t label = of_row[row], start = row * columns;
      if (label == background) continue;
      if (label == ignored) {
        visit(begin, start, Negative{});
        visit(start, start + columns, Ignored{});
        begin = start + columns;
      } else {
        visit(begin, start + label, Negative{});
        visit(start + label, start + label + 1, Positive{});
        begin = start + label + 1;
      }
    }
    visit(begin, last * columns, Negative{});
  }
};

template <class T>
int64_t sigmoid_focal_loss_from_labels_forward(const T *logits, const int64_t *label_of_row,
                                               int64_t rows, int64_t columns, int64_t background,
                                               int64_t ignored, float alpha, float gamma, T *losses,
                                               double *sum, int threads) {
  const Labels labels{label_of_row, rows, columns, background, ignored};
  if (int64_t row = labels.first_wrong(threads); row >= 0) return row;
  *sum = with_focal<T>(alpha, gamma, 1, [&](auto focal) {
    auto sum_of_rows = [&](int64_t first, int64_t last) {
      double total = 0;
      labels.cover(first, last, [&](int64_t begin, int64_t end, auto target) {
        if constexpr (!std::is_same_v<decltype(target), Ignored>) {
          auto target_at = [=](int64_t, auto) { return target; };
          total += losses_of(focal, logits, losses, begin, end, target_at);
        } else if (losses) {
          memset(losses + begin, 0, (end - begin) * sizeof(T));
        }
      });
      return total;
    };
    return sum_of_chunks(labels.rows, labels.rows_per_chunk(), threads, sum_of_rows);
  });
  return -1;
}

// `upstream` is null where one number serves all decisions: then that is `scale`.
template <class T>
void sigmoid_focal_loss_from_labels_backward(const T *logits, const int64_t *label_of_row,
                                             int64_t rows, int64_t columns, int64_t background,
                                             int64_t ignored, float alpha, float gamma,
                                             const T *upstream, float scale, T *grad_input,
                                             int threads) {
  const Labels labels{label_of_row, rows, columns, background, ignored};
  auto backward = [&](auto focal, auto streamed) {
    const int64_t rows_per_chunk = labels.rows_per_chunk();
    parallel_for_chunks(rows, rows_per_chunk, threads, [&](int64_t first, int64_t last) {
      labels.cover(first, last, [&](int64_t begin, int64_t end, auto target) {
        if constexpr (!std::is_same_v<decltype(target), Ignored>) {
          auto target_at = [=](int64_t, auto) { return target; };
          gradients_of(streamed, focal, logits, upstream, grad_input, begin, end, target_at);
        } else {
          memset(grad_input + begin, 0, (end - begin) * sizeof(T));
        }
      });
    });
  };
  with_focal<T>(alpha, gamma, scale, [&](auto focal) {
    with_stores(grad_input, labels.rows * labels.columns,
                [&](auto streamed) { backward(focal, streamed); });
  });
}

}  // namespace

EXPORT(sigmoid_focal_loss_from_labels_forward)
EXPORT(sigmoid_focal_loss_from_labels_backward)
