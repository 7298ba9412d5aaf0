// Sigmoid focal loss (Lin et al. 2017, equation 5) and its derivative.
//
// Of a decision x with target y, where p = sigmoid(x) and q = 1 - p:
//   u     = y q + (1 - y) p                    how far it is from its target
//   bce   = (1 - y) x + max(-x, 0) + log(1 + e^-|x|)
//   loss  = weight u^gamma bce
//   slope = weight u^(gamma - 1) (gamma (1 - 2y) p q bce + u (p - y))
// and where y is 0 or 1, so that p q = u (1 - u) and p - y = (1 - 2y) u,
//   slope = weight (1 - 2y) u^gamma (gamma (1 - u) bce + u)
// One exponential and one logarithm serve all of it. Only e^-|x| appears, so nothing
// overflows; and where y is 0 or 1, no two large terms cancel: small losses keep all their bits.
#pragma once

#include <type_traits>

#include "parallel.h"
#include "vec_math.h"

namespace {

// What a decision should have been: blend(one, zero) is y one + (1 - y) zero, and linear(x) is
// (1 - y) x + max(-x, 0). By definition the latter's terms may be infinities of opposite signs.
struct Negative {
  template <class V> static V blend(V, V zero) { return zero; }
  template <class V> static V linear(V x) { return positive_part(x); }
};
struct Positive {
  template <class V> static V blend(V one, V) { return one; }
  template <class V> static V linear(V x) { return 0.0f * x - min(x, splat(0.0f)); }
};
template <class V> struct Soft {
  V y;
  // So are most of a detector's targets, a whole V at a time.
  bool is_negative() const { return all(equal(y, splat(0.0f))); }
  template <class Value> V blend(Value one, Value zero) const {
    return fma(y, one, (1.0f - y) * zero);
  }
  V linear(V x) const {
    V below = min(x, splat(0.0f));
    return select(::is_negative(x), -y, 1.0f - y) * x + (below - below);
  }
};
template <class V> Soft(V) -> Soft<V>;

template <class Target> constexpr bool is_soft = false;
template <class V> constexpr bool is_soft<Soft<V>> = true;

enum class Gamma { zero, two, any };

// V is a Vec or a Pack.
template <class Precision, Gamma gamma_is> struct Focal {
  float weight_one, weight_zero, gamma;

  template <class V> struct Loss {
    V modulation, bce;  // their product
  };

  template <class V, class Target> Loss<V> loss(V x, Target y) const {
    if constexpr (is_soft<Target>) {
      if (y.is_negative()) return loss(x, Negative{});
    }
    auto d = decide(x);
    auto weight = y.blend(splat(weight_one), splat(weight_zero));
    return {weight * power_of<0>(y.blend(d.q, d.p)), bce(x, y, d)};
  }

  template <class V, class Target> V slope(V x, Target y) const {
    if constexpr (is_soft<Target>) {
      if (y.is_negative()) return slope(x, Negative{});
    }
    auto d = decide(x);
    if constexpr (gamma_is == Gamma::zero) {
      return y.blend(splat(weight_one), splat(weight_zero)) * y.blend(-d.q, d.p);
    } else if constexpr (is_soft<Target>) {
      V weight = y.blend(splat(weight_one), splat(weight_zero)), u = y.blend(d.q, d.p);
      V pull = y.blend(splat(-gamma), splat(gamma)) * d.p * d.q;
      return weight * power_of<1>(u) * fma(pull, bce(x, y, d), u * y.blend(-d.q, d.p));
    } else {
      auto weight = y.blend(splat(-weight_one), splat(weight_zero));
      V u = y.blend(d.q, d.p);
      V pull;
      if constexpr (Precision::is_fine) {
        pull = gamma * y.blend(d.p, d.q);
      } else {  // 1 - u loses bits where u is near 1, but not that many
        pull = fma(u, splat(-gamma), splat(gamma));
      }
      return weight * power_of<0>(u) * fma(pull, bce(x, y, d), u);
    }
  }

 private:
  template <class V> struct Decision {
    V p, q, log_argument;  // the last as add_log wants it
  };

  template <class V> static Decision<V> decide(V x) {
    V minus_magnitude = bits<Vec>(bits<Int>(x) | bits<Int>(splat(-0.0f)));
    V e = exp<Precision>(minus_magnitude);
    auto negative = ::is_negative(x);
    if constexpr (Precision::is_fine) {  // smaller = e / (1 + e): one division for both quotients
      V lower = 1.0f + e, upper = 2.0f + e;
      V quotient = e * reciprocal(lower * upper);
      V smaller = upper * quotient, larger = 1.0f - smaller;
      return {select(negative, smaller, larger), select(negative, larger, smaller),
              lower * quotient};
    } else {
      V larger = rough_reciprocal(1.0f + e), smaller = e * larger;
      return {select(negative, smaller, larger), select(negative, larger, smaller), e};
    }
  }

  template <class V, class Target> static V bce(V x, Target y, Decision<V> d) {
    return add_log<Precision>(y.linear(x), d.log_argument);
  }

  // u^(gamma - less)
  template <int less, class V> V power_of(V u) const {
    if constexpr (gamma_is == Gamma::zero) {
      return splat_as<V>(1.0f);
    } else if constexpr (gamma_is == Gamma::any) {
      return power(u, gamma - less);
    } else if constexpr (less) {
      return u;
    } else {
      return u * u;
    }
  }
};

template <class T> struct PrecisionOf;
template <> struct PrecisionOf<float> { using Type = Fine; };
template <> struct PrecisionOf<BFloat16> { using Type = Coarse; };

// Calls body with the Focal that fits gamma.
template <class T, class Body>
auto with_focal(float alpha, float gamma, float scale, Body body) {
  using Precision = typename PrecisionOf<T>::Type;
  float one = alpha < 0 ? scale : scale * alpha, zero = alpha < 0 ? scale : scale * (1 - alpha);
  if (gamma == 2) return body(Focal<Precision, Gamma::two>{one, zero, gamma});
  if (gamma == 0) return body(Focal<Precision, Gamma::zero>{one, zero, gamma});
  return body(Focal<Precision, Gamma::any>{one, zero, gamma});
}

// Adds fp32 within this many elements, fp64 across them: the sum of any number keeps its bits.
constexpr int64_t chunk = 32 * lanes;

// The loss of decisions [begin, end), written to `losses` unless that is null. Returns their sum.
template <class AFocal, class T, class TargetAt>
IN_ONE_PIECE double losses_of(const AFocal &focal, const T *logits, T *losses, int64_t begin,
                              int64_t end, TargetAt target_at) {
  double total = 0;
  for (int64_t next; begin < end; begin = next) {
    next = (begin / chunk + 1) * chunk < end ? (begin / chunk + 1) * chunk : end;
    Vec sums = splat(0.0f);
    for_each_pack(begin, next, [&](int64_t at, auto part) {
      auto loss = focal.loss(load(logits + at, part), target_at(at, part));
      if (losses) store(losses + at, loss.modulation * loss.bce, part);
      sums = add_product(sums, only(loss.modulation, part), loss.bce);
    });
    total += sum(sums);
  }
  return total;
}

// The slope of decisions [begin, end), times `upstream` element by element unless that is null.
template <class PastCaches, class AFocal, class T, class TargetAt>
IN_ONE_PIECE void slopes_of(PastCaches, const AFocal &focal, const T *logits, const T *upstream,
                            T *slopes, int64_t begin, int64_t end, TargetAt target_at) {
  for_each_pack(begin, end, [&](int64_t at, auto part) {
    auto slope = focal.slope(load(logits + at, part), target_at(at, part));
    if (upstream) slope = slope * load(upstream + at, part);
    if constexpr (PastCaches::value) {
      put_past_caches(slopes + at, slope, part);
    } else {
      store(slopes + at, slope, part);
    }
  });
  if constexpr (PastCaches::value) finish_streams();
}

// Calls body with std::true_type if slopes go past the caches, else with std::false_type.
template <class T, class Body> void with_stores(const T *slopes, int64_t count, Body body) {
  if (goes_past_caches(slopes, count)) return body(std::true_type{});
  body(std::false_type{});
}

struct Ignored {};

// Class ids of rows of decisions: every decision is negative but that of the row's class.
struct Labels {
  const int64_t *of_row;
  int64_t rows, columns, background, ignored;

  // The first row whose label is neither a class nor one of the two others; -1 if there is none.
  int64_t first_wrong(int threads) const {
    int64_t first = rows;
#pragma omp parallel for num_threads(threads) reduction(min : first) if (rows > turn)
    for (int64_t row = 0; row < rows; ++row) {
      int64_t label = of_row[row];
      bool is_wrong = label != background && label != ignored && (label < 0 || label >= columns);
      if (is_wrong && row < first) first = row;
    }
    return first < rows ? first : -1;
  }

  // A turn's rows: about `turn` decisions, and a multiple of 16 rows, which keeps blocks aligned.
  int64_t rows_a_turn() const { return (turn / (columns + 1) / 16 + 1) * 16; }

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
int64_t labels_forward(const T *logits, Labels labels, float alpha, float gamma, T *losses,
                       double *sum, int threads) {
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
    return sum_in_turns(labels.rows, labels.rows_a_turn(), threads, sum_of_rows);
  });
  return -1;
}

// `upstream` is null where one number serves all decisions: then that is `scale`.
template <class T>
void labels_backward(const T *logits, Labels labels, float alpha, float gamma, const T *upstream,
                     float scale, T *slopes, int threads) {
  auto backward = [&](auto focal, auto past_caches) {
    in_turns(labels.rows, labels.rows_a_turn(), threads, [&](int64_t first, int64_t last) {
      labels.cover(first, last, [&](int64_t begin, int64_t end, auto target) {
        if constexpr (!std::is_same_v<decltype(target), Ignored>) {
          auto target_at = [=](int64_t, auto) { return target; };
          slopes_of(past_caches, focal, logits, upstream, slopes, begin, end, target_at);
        } else {
          memset(slopes + begin, 0, (end - begin) * sizeof(T));
        }
      });
    });
  };
  with_focal<T>(alpha, gamma, scale, [&](auto focal) {
    with_stores(slopes, labels.rows * labels.columns,
                [&](auto past_caches) { backward(focal, past_caches); });
  });
}

template <class T>
void dense_forward(const T *logits, const T *targets, int64_t count, float alpha, float gamma,
                   T *losses, double *sum, int threads) {
  auto target_at = [=](int64_t at, auto part) { return Soft{load(targets + at, part)}; };
  *sum = with_focal<T>(alpha, gamma, 1, [&](auto focal) {
    return sum_in_turns(count, turn, threads, [&](int64_t begin, int64_t end) {
      return losses_of(focal, logits, losses, begin, end, target_at);
    });
  });
}

template <class T>
void dense_backward(const T *logits, const T *targets, int64_t count, float alpha, float gamma,
                    const T *upstream, float scale, T *slopes, int threads) {
  auto target_at = [=](int64_t at, auto part) { return Soft{load(targets + at, part)}; };
  with_focal<T>(alpha, gamma, scale, [&](auto focal) {
    with_stores(slopes, count, [&](auto past_caches) {
      in_turns(count, turn, threads, [&](int64_t begin, int64_t end) {
        slopes_of(past_caches, focal, logits, upstream, slopes, begin, end, target_at);
      });
    });
  });
}

}  // namespace
