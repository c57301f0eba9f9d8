#pragma once
// Rows as whole vectors and a partial one, and sums over a row in an order that depends on its
// length alone.
#include "kernels/vector/rows.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// A vector of a row, of the storage type S; sums have the computed type.
template <class V, class S>
struct WholeVector {
  using Stored = typename S::Stored;
  using E = typename V::Element;
  static V load(const Stored* p) { return S::load(p); }
  static void save(Stored* p, V v) { S::save(p, v); }
  static V load_sums(const E* p) { return V::load(p); }
  static void save_sums(E* p, V v) { store(p, v); }
  static V present(V v) { return v; }  // 0 in lanes that are not there
};
// The first n lanes of one; the others are loaded as 0.
template <class V, class S>
struct PartVector {
  using Stored = typename S::Stored;
  using E = typename V::Element;
  int64_t n;
  V load(const Stored* p) const { return S::load_first(p, n); }
  void save(Stored* p, V v) const { S::save_first(p, v, n); }
  V load_sums(const E* p) const { return V::load_first(p, n); }
  void save_sums(E* p, V v) const { store_first(p, v, n); }
  V present(V v) const { return select(mask_of((uint64_t{1} << n) - 1), v, V::splat(0)); }
};

// Calls f(i, vector) for the vectors of elements [begin, end), which begin at element i.
template <class V, class S, class Function>
RAPT_INLINE void for_vectors(int64_t begin, int64_t end, const Function& f) {
  int64_t i = begin;
  for (; i + V::kLanes <= end; i += V::kLanes) f(i, WholeVector<V, S>());
  if (i < end) f(i, PartVector<V, S>{end - i});
}

// The sum of all lanes.
template <class V, class E = typename V::Element>
RAPT_INLINE E sum_of_lanes(V v) {
  E lane[V::kLanes];
  store(lane, v);
  UNROLL_FOR (int64_t n = V::kLanes / 2; n > 0; n /= 2)
    UNROLL_FOR (int64_t i = 0; i < n; ++i) lane[i] += lane[i + n];
  return lane[0];
}

// Sums are made in blocks of so many vectors.
constexpr int64_t kSumVectors = 128;

// The sum of term(sum, i, vector), which returns sum + the terms of a vector, over `count`
// elements. Four chains hide the latency of additions.
template <class V, class S, class Term>
RAPT_INLINE typename V::Element sum_of_row(int64_t count, const Term& term) {
  constexpr int kChains = 4;
  V total = V::splat(0);
  for (int64_t begin = 0; begin < count; begin += kSumVectors * V::kLanes) {
    const int64_t end = smaller(begin + kSumVectors * V::kLanes, count);
    V sum[kChains];
    UNROLL_FOR (int c = 0; c < kChains; ++c) sum[c] = V::splat(0);
    int64_t i = begin;
    for (; i + kChains * V::kLanes <= end; i += kChains * V::kLanes)
      UNROLL_FOR (int c = 0; c < kChains; ++c)
        sum[c] = term(sum[c], i + c * V::kLanes, WholeVector<V, S>());
    for_vectors<V, S>(i, end,
                      [&](int64_t at, const auto& vector) { sum[0] = term(sum[0], at, vector); });
    total = add(total, add(add(sum[0], sum[1]), add(sum[2], sum[3])));
  }
  return sum_of_lanes(total);
}

}  // namespace
}  // namespace rapt::RAPT_ISA
