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
constexpr int64_t sum_block = 32 * lanes;

// The loss of decisions [begin, end), written to `losses` unless that is null. Returns their sum.
template <class AFocal, class T, class TargetAt>
IN_ONE_PIECE double losses_of(const AFocal &focal, const T *logits, T *losses, int64_t begin,
                              int64_t end, TargetAt target_at) {
  double total = 0;
  for (int64_t next; begin < end; begin = next) {
    next = (begin / sum_block + 1) * sum_block < end ? (begin / sum_block + 1) * sum_block : end;
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
template <class Streamed, class AFocal, class T, class TargetAt>
IN_ONE_PIECE void gradients_of(Streamed, const AFocal &focal, const T *logits, const T *upstream,
                            T *grad_input, int64_t begin, int64_t end, TargetAt target_at) {
  for_each_pack(begin, end, [&](int64_t at, auto part) {
    auto slope = focal.slope(load(logits + at, part), target_at(at, part));
    if (upstream) slope = slope * load(upstream + at, part);
    if constexpr (Streamed::value) {
      stream_store(grad_input + at, slope, part);
    } else {
      store(grad_input + at, slope, part);
    }
  });
  if constexpr (Streamed::value) finish_streams();
}

// Calls body with std::true_type if the gradient is stored past the caches, else std::false_type.
template <class T, class Body> void with_stores(const T *grad_input, int64_t count, Body body) {
  if (should_stream(grad_input, count)) return body(std::true_type{});
  body(std::false_type{});
}

}  // namespace
