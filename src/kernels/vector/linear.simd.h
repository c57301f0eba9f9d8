#pragma once
// What linear attention (src/method/linear) does beside products: feature maps, sums of features,
// and the weights within a chunk. Lanes are tokens.
#include "kernels/vector/gradients.simd.h"
#include "rapt/feature_maps.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class M>
constexpr FeatureMapKernels<typename V::Element> kFeatureMap = {
    .projects = M::kProjects, .apply = M::template apply<V>, .backward = M::template backward<V>};

template <class V, class Maps>
struct FeatureMapTable;
template <class V, class... M>
struct FeatureMapTable<V, TypeList<M...>> {
  static constexpr FeatureMapKernels<typename V::Element> kList[] = {kFeatureMap<V, M>...};
};

// sums [tokens] += sum over `count` of weights[i] rows[i]. Four chains hide the latency.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_weighted_rows(const E* rows, const E* weights, int64_t count, int64_t tokens,
                                     E* sums) noexcept {
  for (int64_t x = 0; x < tokens; x += V::kLanes) {
    V sum[4];
    UNROLL_FOR (int k = 0; k < 4; ++k) sum[k] = V::splat(0);
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
      UNROLL_FOR (int k = 0; k < 4; ++k)
        sum[k] = fma(V::splat(weights[i + k]), V::load(rows + (i + k) * tokens + x), sum[k]);
    for (; i < count; ++i)
      sum[0] = fma(V::splat(weights[i]), V::load(rows + i * tokens + x), sum[0]);
    store(sums + x, add(V::load(sums + x), add(add(sum[0], sum[1]), add(sum[2], sum[3]))));
  }
}

// sums [count] += the sums of rows over tokens, each token times its factor.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_row_sums(const E* rows, int64_t stride, int64_t count, const E* factors,
                                int64_t tokens, E* sums) noexcept {
  for (int64_t i = 0; i < count; i += V::kLanes) {
    V r[V::kLanes];
    const int64_t some = smaller(V::kLanes, count - i);
    UNROLL_FOR (int y = 0; y < V::kLanes; ++y) {
      r[y] = V::splat(0);
      if (y < some)
        for (int64_t x = 0; x < tokens; x += V::kLanes)
          r[y] = fma(V::load(factors + x), V::load(rows + (i + y) * stride + x), r[y]);
    }
    transpose(r);
    V sum = r[0];
    UNROLL_FOR (int y = 1; y < V::kLanes; ++y) sum = add(sum, r[y]);
    store_first(sums + i, add(V::load_first(sums + i, some), sum), some);
  }
}

// rows [count][tokens] += column row.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_outer(const E* column, const E* row, int64_t count, int64_t tokens,
                             E* rows) noexcept {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t x = 0; x < tokens; x += V::kLanes)
      store(rows + i * tokens + x,
            fma(V::splat(column[i]), V::load(row + x), V::load(rows + i * tokens + x)));
}

// to = factor from + more; `more` null: 0. Reads and writes exactly `count` elements.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void scale_and_add(const E* from, E factor, const E* more, int64_t count,
                                 E* to) noexcept {
  const V f = V::splat(factor), zero = V::splat(0);
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes)
    store(to + i, more ? fma(f, V::load(from + i), V::load(more + i)) : mul(f, V::load(from + i)));
  if (const int64_t rest = count - i; rest > 0)
    store_first(to + i,
                fma(f, V::load_first(from + i, rest), more ? V::load_first(more + i, rest) : zero),
                rest);
}

// to [count][tokens] = from * factors [tokens] + more; `more` null: 0.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void scale_columns(const E* from, const E* factors, const E* more, int64_t count,
                                 int64_t tokens, E* to) noexcept {
  for (int64_t i = 0; i < count * tokens; i += tokens)
    for (int64_t x = i; x < i + tokens; x += V::kLanes) {
      const V f = V::load(factors + x - i), a = V::load(from + x);
      store(to + x, more ? fma(f, a, V::load(more + x)) : mul(f, a));
    }
}

// 2^(from - to) of integers, exact or 0. A difference above 0, which only lanes that nobody reads
// have, counts as 0: exp2 takes none beyond the largest exponent.
template <class V>
[[gnu::always_inline]] inline V power_between(V from, V to) noexcept {
  const V zero = V::set(0);
  return exp2(sub(zero, max(sub(to, from), zero)));
}

// weights [keys][queries], of which key j serves query i if bit i of bits[j] is set:
// weights *= 2^(key power - row power), 0 where the bit is clear.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void scale_chunk_weights(const uint64_t* bits, const E* key_powers,
                                       const E* row_powers, int64_t keys, int64_t queries,
                                       E* weights) noexcept {
  for (int64_t x = 0; x < queries; x += V::kLanes)
    for (int64_t j = 0; j < keys; ++j) {
      V w = V::load(weights + j * queries + x);
      if (key_powers) w = mul(w, power_between(V::splat(key_powers[j]), V::load(row_powers + x)));
      store(weights + j * queries + x, select(mask_of(bits[j] >> x), w, V::splat(0)));
    }
}

// row_powers [queries] = the larger of `first` and the powers of the keys that serve the query.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void largest_powers(const uint64_t* bits, const E* key_powers, E first, int64_t keys,
                                  int64_t queries, E* row_powers) noexcept {
  for (int64_t x = 0; x < queries; x += V::kLanes) {
    V most = V::splat(first);
    for (int64_t j = 0; j < keys; ++j)
      most = max(select(mask_of(bits[j] >> x), V::splat(key_powers[j]), most), most);
    store(row_powers + x, most);
  }
}

// factors = 2^(from - to). Reads and writes exactly `count` elements.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void powers_between(const E* from, E to, int64_t count, E* factors) noexcept {
  const V power = V::splat(to);
  int64_t x = 0;
  for (; x + V::kLanes <= count; x += V::kLanes)
    store(factors + x, power_between(V::load(from + x), power));
  if (const int64_t rest = count - x; rest > 0)
    store_first(factors + x, power_between(V::load_first(from + x, rest), power), rest);
}

// logs = log(sums) + ln 2 powers + constant.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void log_of_sums(const E* sums, const E* powers, E constant, int64_t tokens,
                               E* logs) noexcept {
  for (int64_t x = 0; x < tokens; x += V::kLanes)
    store(logs + x, add(fma(V::load(powers + x), V::set(0.69314718055994531), V::splat(constant)),
                        log(V::load(sums + x))));
}

template <class V>
constexpr LinearKernels<typename V::Element> kLinear = {
    .maps = FeatureMapTable<V, FeatureMaps>::kList,
    .add_weighted_rows = add_weighted_rows<V>,
    .add_row_sums = add_row_sums<V>,
    .add_outer = add_outer<V>,
    .scale_and_add = scale_and_add<V>,
    .scale_columns = scale_columns<V>,
    .scale_chunk_weights = scale_chunk_weights<V>,
    .largest_powers = largest_powers<V>,
    .powers_between = powers_between<V>,
    .log_of_sums = log_of_sums<V>};

}  // namespace
}  // namespace rapt::RAPT_ISA
