#pragma once
// Softmax cross-entropy and its gradient, row by row, in one pass over the logits each.
#include "nn/kernels/loss_kernels.h"
#include "nn/kernels/row_sums.simd.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V>
RAPT_INLINE V power_of_e(V x) {
  return exp2(mul(x, V::set(1.4426950408889634)));  // log2 e
}

// Per lane the largest logit so far and the sum of e^(z - largest). `largest` begins at the lowest
// number, so that a logit of -inf adds 0.
template <class V, class E = typename V::Element>
struct LogSum {
  static constexpr E kLowest = sizeof(E) == sizeof(float) ? static_cast<E>(-0x1.fffffep127)
                                                          : static_cast<E>(-0x1.fffffffffffffp1023);
  V largest = V::splat(kLowest), sum = V::splat(0);

  // Changes the reference of the sum to `block`, where it is larger. A NaN makes the sum NaN.
  RAPT_INLINE void raise(V block) {
    if (!any(not_at_most(block, largest))) return;
    const V next = max(largest, block);
    sum = mul(sum, power_of_e(sub(largest, next)));
    largest = next;
  }
  // ln of the sum over all lanes is `most` + ln of the result.
  RAPT_INLINE E over_lanes(E& most) const {
    E lane[V::kLanes];
    store(lane, largest);
    most = lane[0];
    for (int64_t i = 1; i < V::kLanes; ++i) most = lane[i] > most ? lane[i] : most;
    return sum_of_lanes(mul(sum, power_of_e(sub(largest, V::splat(most)))));
  }
};

// The largest logits of [begin, end) per lane, at least `most`. A NaN may be lost.
template <class V, class S>
RAPT_INLINE V largest_logits(const typename S::Stored* z, int64_t begin, int64_t end, V most) {
  constexpr int kChains = 4;
  V m[kChains];
  UNROLL_FOR (int c = 0; c < kChains; ++c) m[c] = most;
  int64_t i = begin;
  for (; i + kChains * V::kLanes <= end; i += kChains * V::kLanes)
    UNROLL_FOR (int c = 0; c < kChains; ++c) m[c] = max(m[c], S::load(z + i + c * V::kLanes));
  for (; i + V::kLanes <= end; i += V::kLanes) m[0] = max(m[0], S::load(z + i));
  if (const int64_t n = end - i; n > 0) {
    const V last = S::load_first(z + i, n);
    m[0] = max(m[0], select(mask_of((uint64_t{1} << n) - 1), last, m[0]));
  }
  return max(max(m[0], m[1]), max(m[2], m[3]));
}

// Adds the logits [begin, end) to `sums` and, if Plain, their sum to `plain`. A first loop finds
// the largest, and with it the block is in the L1. The second prefetches the block after, so that
// reading it overlaps with the powers.
template <class V, class S, bool Plain>
RAPT_INLINE void add_logits(const typename S::Stored* z, int64_t begin, int64_t end,
                            LogSum<V>& sums, V& plain) {
  constexpr bool kLines = V::kLanes * sizeof(typename S::Stored) >= 64;  // is a vector a line?
  sums.raise(largest_logits<V, S>(z, begin, end, sums.largest));
  V sum[2] = {V::splat(0), V::splat(0)}, all = V::splat(0);
  const auto add_vector = [&](int c, int64_t i, const auto& vector) {
    const V v = vector.load(z + i);
    const V power = power_of_e(vector.present(sub(v, sums.largest)));
    sum[c] = add(sum[c], vector.present(power));
    if constexpr (Plain) all = add(all, v);
  };
  int64_t i = begin;
  for (; i + 2 * V::kLanes <= end; i += 2 * V::kLanes)
    UNROLL_FOR (int c = 0; c < 2; ++c) {
      if (c == 0 || kLines) prefetch(z + i + c * V::kLanes + (end - begin));
      add_vector(c, i + c * V::kLanes, WholeVector<V, S>());
    }
  for_vectors<V, S>(i, end, [&](int64_t at, const auto& vector) { add_vector(0, at, vector); });
  sums.sum = add(sums.sum, add(sum[0], sum[1]));
  if constexpr (Plain) plain = add(plain, all);
}

// Writes lse and returns the loss. `target` is a class.
template <class V, class S, bool Smooth>
RAPT_INLINE double loss_of_row(const typename S::Stored* z, int64_t classes, int64_t target,
                               double smoothing, double& lse) {
  using E = typename V::Element;
  LogSum<V> sums;
  V plain = V::splat(0);
  for (int64_t begin = 0; begin < classes; begin += kSumVectors * V::kLanes)
    add_logits<V, S, Smooth>(z, begin, smaller(begin + kSumVectors * V::kLanes, classes), sums,
                             plain);
  E most, lane[V::kLanes];
  const E sum = sums.over_lanes(most);
  store(lane, log(V::splat(sum)));
  const double above = lane[0], largest = most;
  lse = largest + above;
  store(lane, S::load_first(z + target, 1));
  double mixed = lane[0];
  if constexpr (Smooth)
    mixed = (1 - smoothing) * mixed +
            smoothing * (static_cast<double>(sum_of_lanes(plain)) / static_cast<double>(classes));
  return above + (largest - mixed);
}

template <class V, class S, bool Smooth>
RAPT_NOINLINE void cross_entropy_as(const nn::CrossEntropyRows& of) noexcept {
  const auto* z = static_cast<const typename S::Stored*>(of.logits);
  for (int64_t r = 0; r < of.rows; ++r, z += of.classes) {
    const int64_t target = of.targets[r];
    if (target == of.ignore_index)
      of.lse[r] = of.loss[r] = 0;
    else
      of.loss[r] = loss_of_row<V, S, Smooth>(z, of.classes, target, of.smoothing, of.lse[r]);
  }
}
template <class V, class S>
void cross_entropy(const nn::CrossEntropyRows& of) noexcept {
  of.smoothing > 0 ? cross_entropy_as<V, S, true>(of) : cross_entropy_as<V, S, false>(of);
}

// An lse that is far from 0 is the sum of two numbers of the computed type, so that z - lse has the
// error of its own size.
template <class V, class S, class E>
RAPT_INLINE void gradient_of_row(const typename S::Stored* z, int64_t classes, int64_t target,
                                 double lse, E factor, E of_target, E of_classes,
                                 typename S::Stored* d_z) {
  const E high = static_cast<E>(lse);
  const auto low = static_cast<E>(lse - static_cast<double>(high));
  const V h = V::splat(high), l = V::splat(low), f = V::splat(factor);
  const V share = V::splat(of_classes);
  const auto of_class = [&](V v) { return sub(mul(f, power_of_e(sub(sub(v, h), l))), share); };
  const V at_target = sub(of_class(S::load_first(z + target, 1)), V::splat(of_target));
  for_vectors<V, S>(0, classes, [&](int64_t i, const auto& vector) {
    vector.save(d_z + i, of_class(vector.load(z + i)));
  });
  S::save_first(d_z + target, at_target, 1);
}

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void cross_entropy_gradient(const nn::CrossEntropyGradientRows<E>& of) noexcept {
  using Stored = typename S::Stored;
  const auto* z = static_cast<const Stored*>(of.logits);
  auto* d_z = static_cast<Stored*>(of.d_logits);
  for (int64_t r = 0; r < of.rows; ++r, z += of.classes, d_z += of.classes) {
    const int64_t target = of.targets[r];
    if (target == of.ignore_index)
      for_vectors<V, S>(0, of.classes,
                        [&](int64_t i, const auto& vector) { vector.save(d_z + i, V::splat(0)); });
    else
      gradient_of_row<V, S>(z, of.classes, target, of.lse[r], of.factor, of.of_target,
                            of.of_classes, d_z);
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA
