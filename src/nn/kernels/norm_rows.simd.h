#pragma once
// LayerNorm and RmsNorm. The passes over a row find it in the L1.
#include "nn/kernels/norm_kernels.h"
#include "nn/kernels/roots.simd.h"
#include "nn/kernels/row_sums.simd.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class S, class E = typename V::Element>
RAPT_INLINE E mean_of(const typename S::Stored* x, int64_t features) {
  return sum_of_row<V, S>(
             features,
             [&](V sum, int64_t i, const auto& vector) { return add(sum, vector.load(x + i)); }) /
         static_cast<E>(features);
}

// The mean of (x - mean)^2; of x^2 for RmsNorm.
template <class V, class S, bool Centred, class E = typename V::Element>
RAPT_INLINE E mean_square(const typename S::Stored* x, int64_t features, E mean) {
  const V m = V::splat(mean);
  return sum_of_row<V, S>(features,
                          [&](V sum, int64_t i, const auto& vector) {
                            V d = vector.load(x + i);
                            if constexpr (Centred) d = vector.present(sub(d, m));
                            return fma(d, d, sum);
                          }) /
         static_cast<E>(features);
}

template <class V, class S, bool Centred, bool Weighted, bool Biased, class E>
RAPT_NOINLINE void norm_as(const nn::NormRows<E>& of) noexcept {
  using Stored = typename S::Stored;
  const auto* x = static_cast<const Stored*>(of.x);
  const auto* const weight = static_cast<const Stored*>(of.weight);
  const auto* const bias = static_cast<const Stored*>(of.bias);
  auto* y = static_cast<Stored*>(of.y);
  E* const means = of.mean;
  E* const rstds = of.rstd;
  const int64_t rows = of.rows, features = of.features;
  const E epsilon = of.epsilon;
  for (int64_t r = 0; r < rows; ++r, x += features, y += features) {
    E mean = 0;
    if constexpr (Centred) means[r] = mean = mean_of<V, S>(x, features);
    const E rstd = 1 / root_of(mean_square<V, S, Centred>(x, features, mean) + epsilon);
    rstds[r] = rstd;
    const V m = V::splat(mean), factor = V::splat(rstd);
    for_vectors<V, S>(0, features, [&](int64_t i, const auto& vector) {
      V v = vector.load(x + i);
      if constexpr (Centred) v = sub(v, m);
      v = mul(v, factor);
      if constexpr (Weighted && Biased)
        v = fma(v, vector.load(weight + i), vector.load(bias + i));
      else if constexpr (Weighted)
        v = mul(v, vector.load(weight + i));
      else if constexpr (Biased)
        v = add(v, vector.load(bias + i));
      vector.save(y + i, v);
    });
  }
}

template <class V, class S, bool Centred, class E = typename V::Element>
void norm(const nn::NormRows<E>& of) noexcept {
  if (of.weight && of.bias)
    norm_as<V, S, Centred, true, true>(of);
  else if (of.weight)
    norm_as<V, S, Centred, true, false>(of);
  else if (of.bias)
    norm_as<V, S, Centred, false, true>(of);
  else
    norm_as<V, S, Centred, false, false>(of);
}

// Rows whose gradients are computed together: parameters' gradients are then loaded and stored once
// for all of them. Their sums and those of the rows fill the registers.
template <class V>
constexpr int kNormRows = V::kRegisters >= 32 ? 4 : 2;

// A row of x^ from one of x.
template <class V, bool Centred>
struct Normal {
  V mean, rstd;

  template <class E>
  Normal(const nn::NormGradientRows<E>& of, int64_t row) : rstd(V::splat(of.rstd[row])) {
    if constexpr (Centred) mean = V::splat(of.mean[row]);
  }
  RAPT_INLINE V operator()(V x) const {
    if constexpr (Centred) x = sub(x, mean);
    return mul(x, rstd);
  }
};

// The sums of `Rows` rows from row `first` on: to sums and dots those of g and g x^ over a row,
// which have one order, whatever `Rows` is; to of.parameters those over the rows.
template <class V, class S, bool Centred, bool Weighted, bool Learns, int Rows, class E>
RAPT_INLINE void add_norm_sums(const nn::NormGradientRows<E>& of, int64_t first, V (&sums)[Rows],
                               V (&dots)[Rows]) {
  using Stored = typename S::Stored;
  const int64_t features = of.features;
  const auto* const x = static_cast<const Stored*>(of.x) + first * features;
  const auto* const d_y = static_cast<const Stored*>(of.d_y) + first * features;
  const auto* const weight = static_cast<const Stored*>(of.weight);
  E* const d_weight = of.parameters;
  E* const d_bias = d_weight + (Learns && Centred ? features : 0);
  V mean[Rows], rstd[Rows];
  UNROLL_FOR (int r = 0; r < Rows; ++r) {
    const Normal<V, Centred> normal(of, first + r);
    mean[r] = normal.mean, rstd[r] = normal.rstd, sums[r] = dots[r] = V::splat(0);
  }
  for (int64_t begin = 0; begin < features; begin += kSumVectors * V::kLanes) {
    V sum[Rows], dot[Rows];
    UNROLL_FOR (int r = 0; r < Rows; ++r) sum[r] = dot[r] = V::splat(0);
    const int64_t end = smaller(begin + kSumVectors * V::kLanes, features);
    for_vectors<V, S>(begin, end, [&](int64_t i, const auto& vector) {
      V w = V::splat(0), of_weight = w, of_bias = w;
      if constexpr (Weighted) w = vector.load(weight + i);
      UNROLL_FOR (int r = 0; r < Rows; ++r) {
        V n = vector.load(x + r * features + i);
        if constexpr (Centred) n = sub(n, mean[r]);
        n = vector.present(mul(n, rstd[r]));
        const V d = vector.load(d_y + r * features + i);
        if constexpr (Learns) {
          of_weight = r == 0 ? mul(d, n) : fma(d, n, of_weight);
          of_bias = r == 0 ? d : add(of_bias, d);
        }
        const V g = Weighted ? mul(d, w) : d;
        if constexpr (Centred) sum[r] = add(sum[r], g);
        dot[r] = fma(g, n, dot[r]);
      }
      if constexpr (Learns) {
        vector.save_sums(d_weight + i, add(vector.load_sums(d_weight + i), of_weight));
        if constexpr (Centred)
          vector.save_sums(d_bias + i, add(vector.load_sums(d_bias + i), of_bias));
      }
    });
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      sums[r] = add(sums[r], sum[r]), dots[r] = add(dots[r], dot[r]);
  }
}

// d_x of a row from the sums over it.
template <class V, class S, bool Centred, bool Weighted, class E>
RAPT_INLINE void store_norm_gradient(const nn::NormGradientRows<E>& of, int64_t row, V sum, V dot) {
  using Stored = typename S::Stored;
  const int64_t features = of.features;
  const auto* const x = static_cast<const Stored*>(of.x) + row * features;
  const auto* const d_y = static_cast<const Stored*>(of.d_y) + row * features;
  const auto* const weight = static_cast<const Stored*>(of.weight);
  auto* const d_x = static_cast<Stored*>(of.d_x) + row * features;
  const bool adds = of.add;
  const Normal<V, Centred> normal(of, row);
  const V per_feature = V::splat(of.rstd[row] / static_cast<E>(features));
  const V shift = mul(V::splat(sum_of_lanes(sum)), per_feature);
  const V slope = mul(V::splat(sum_of_lanes(dot)), per_feature);
  for_vectors<V, S>(0, features, [&](int64_t i, const auto& vector) {
    const V n = normal(vector.load(x + i));
    V d = vector.load(d_y + i);
    if constexpr (Weighted) d = mul(d, vector.load(weight + i));
    d = mul(d, normal.rstd);
    if constexpr (Centred) d = sub(d, shift);
    d = sub(d, mul(slope, n));
    if (adds) d = add(vector.load(d_x + i), d);
    vector.save(d_x + i, d);
  });
}

template <class V, class S, bool Centred, bool Weighted, bool Learns, int Rows, class E>
RAPT_INLINE void norm_gradient_of(const nn::NormGradientRows<E>& of, int64_t first) {
  V sums[Rows], dots[Rows];
  add_norm_sums<V, S, Centred, Weighted, Learns>(of, first, sums, dots);
  if (!of.d_x) return;
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    store_norm_gradient<V, S, Centred, Weighted>(of, first + r, sums[r], dots[r]);
}

template <class V, class S, bool Centred, bool Weighted, bool Learns, class E>
RAPT_NOINLINE void norm_gradient_as(const nn::NormGradientRows<E>& of) noexcept {
  int64_t r = 0;
  for (; r + kNormRows<V> <= of.rows; r += kNormRows<V>)
    norm_gradient_of<V, S, Centred, Weighted, Learns, kNormRows<V>>(of, r);
  for (; r < of.rows; ++r) norm_gradient_of<V, S, Centred, Weighted, Learns, 1>(of, r);
}

template <class V, class S, bool Centred, class E = typename V::Element>
void norm_gradient(const nn::NormGradientRows<E>& of) noexcept {
  if (of.weight && of.parameters)
    norm_gradient_as<V, S, Centred, true, true>(of);
  else if (of.weight)
    norm_gradient_as<V, S, Centred, true, false>(of);
  else if (of.parameters)
    norm_gradient_as<V, S, Centred, false, true>(of);
  else
    norm_gradient_as<V, S, Centred, false, false>(of);
}

}  // namespace
}  // namespace rapt::RAPT_ISA
