#pragma once
// Kernels of captures: the largest scores of a row, the attention that a key receives, pooled
// weights. All work on a score tile [keys][queries] while it is in the L1.
#include "kernels/vector/rows.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// Keys are stored in lanes as the bits of an integer of the element's size; only moves and
// selections touch them.
template <class E>
struct KeyBits {
  using Integer = int64_t;
};
template <>
struct KeyBits<float> {
  using Integer = int32_t;
};

// Inserts x, which has no NaN, into the sorted lists of all lanes, from the last place up. Place r
// gets the entry of the place above if x belongs higher, gets x if x belongs here, and stays
// otherwise. Few insertions reach the upper places, so the loop usually ends early.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void insert(V x, V key, int64_t queries, int64_t top_k, E* best,
                          E* best_keys) noexcept {
  int64_t r = top_k - 1;
  V here = V::load(best + r * queries), here_key = V::load(best_keys + r * queries);
  auto goes_here = not_at_most(x, here);
  for (; r > 0; --r) {
    const V above = V::load(best + (r - 1) * queries);
    const V above_key = V::load(best_keys + (r - 1) * queries);
    const auto goes_above = not_at_most(x, above);
    store(best + r * queries, select(goes_above, above, select(goes_here, x, here)));
    store(best_keys + r * queries, select(goes_above, above_key, select(goes_here, key, here_key)));
    if (r % 16 == 0 && !any(goes_above)) return;
    here = above, here_key = above_key, goes_here = goes_above;
  }
  store(best, select(goes_here, x, here));
  store(best_keys, select(goes_here, key, here_key));
}

// In the lists a NaN counts as infinity; all weights of its row are NaN in any order.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void keep_top(const E* scores, int64_t keys, int64_t queries, int64_t first_key,
                            int64_t top_k, E* best, E* best_keys) noexcept {
  const V infinity = V::set(__builtin_inf());
  for (int64_t x = 0; x < queries; x += V::kLanes) {
    const E* column = scores + x;
    const E* last = best + (top_k - 1) * queries + x;
    V least = V::load(last);
    // First collects the keys that may enter some list, without a branch, because it would be
    // unpredictable. Then inserts them one by one, with rising bounds.
    constexpr int64_t kRun = 64;
    for (int64_t begin = 0; begin < keys; begin += kRun) {
      int32_t candidate[kRun];
      int64_t candidates = 0;
      for (int64_t j = begin; j < smaller(keys, begin + kRun); ++j) {
        candidate[candidates] = static_cast<int32_t>(j);
        candidates += any(not_at_most(V::load(column + j * queries), least));
      }
      for (int64_t c = 0; c < candidates; ++c) {
        const V score = V::load(column + candidate[c] * queries);
        const V s = select(equal(score, score), score, infinity);
        if (!any(not_at_most(s, least))) continue;
        const auto key = static_cast<typename KeyBits<E>::Integer>(first_key + candidate[c]);
        insert(s, V::splat(__builtin_bit_cast(E, key)), queries, top_k, best + x, best_keys + x);
        least = V::load(last);
      }
    }
  }
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_received(const E* weights, int64_t keys, int64_t queries, E* sums) noexcept {
  for (int64_t j = 0; j < keys; ++j, weights += queries, sums += V::kLanes) {
    V sum = V::load(weights);
    for (int64_t x = V::kLanes; x < queries; x += V::kLanes) sum = add(sum, V::load(weights + x));
    store(sums, add(V::load(sums), sum));
  }
}

struct Sum {
  template <class V>
  static V take(V sum, V x) {
    return add(sum, x);
  }
  static double take(double sum, double x) { return sum + x; }
};
// Keeps a NaN, which the hardware's maximum would replace by the next number.
struct Maximum {
  template <class V>
  static V take(V largest, V x) {
    return select(equal(largest, largest), max(largest, x), largest);
  }
  static double take(double largest, double x) {
    return x <= largest || largest != largest ? largest : x;
  }
};

// Pools `count` rows in four chains, because one chain of additions would be bound by latency.
template <class How, class V, class E = typename V::Element>
RAPT_INLINE V pool_rows(const E* rows, int64_t stride, int64_t count) {
  V pooled = V::load(rows);
  int64_t i = 1;
  if (count >= 4) {
    V part[4];
    UNROLL_FOR (int k = 0; k < 4; ++k) part[k] = V::load(rows + k * stride);
    for (i = 4; i + 4 <= count; i += 4)
      UNROLL_FOR (int k = 0; k < 4; ++k)
        part[k] = How::take(part[k], V::load(rows + (i + k) * stride));
    pooled = How::take(How::take(part[0], part[1]), How::take(part[2], part[3]));
  }
  for (; i < count; ++i) pooled = How::take(pooled, V::load(rows + i * stride));
  return pooled;
}

// Pools over the keys first, where queries are lanes. The result is transposed, as many cell
// columns at a time as a vector has lanes, and pooled over the queries.
template <class How, class V, class E = typename V::Element>
RAPT_NOINLINE void pool_by(E* weights, int64_t queries, const int* column_end, int64_t columns,
                           const int* row_end, int64_t rows, double* cells,
                           int64_t stride) noexcept {
  for (int64_t x = 0; x < queries; x += V::kLanes)
    for (int64_t b = 0, j = 0; b < columns; j = column_end[b++])  // b <= j: row b has been read
      store(weights + b * queries + x,
            pool_rows<How, V>(weights + j * queries + x, queries, column_end[b] - j));
  for (int64_t b = 0; b < columns; b += V::kLanes) {
    alignas(64) E transposed[V::kMaxVectors * V::kLanes * V::kLanes];  // [queries][columns]
    for (int64_t x = 0; x < queries; x += V::kLanes) {
      V r[V::kLanes];
      load_transposed<V, AsElement<V>>(weights + b * queries + x, queries, 1, columns - b,
                                       queries - x, r);
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y) store(transposed + (x + y) * V::kLanes, r[y]);
    }
    const int64_t some_columns = smaller(columns - b, V::kLanes);
    for (int64_t a = 0, i = 0; a < rows; i = row_end[a++]) {
      E of_columns[V::kLanes];
      store(of_columns, pool_rows<How, V>(transposed + i * V::kLanes, V::kLanes, row_end[a] - i));
      double* row = cells + a * stride + b;
      for (int64_t c = 0; c < some_columns; ++c)
        row[c] = How::take(row[c], static_cast<double>(of_columns[c]));
    }
  }
}

template <class V, class E = typename V::Element>
void pool(E* weights, int64_t queries, const int* column_end, int64_t columns, const int* row_end,
          int64_t rows, bool maximum, double* cells, int64_t stride) noexcept {
  (maximum ? pool_by<Maximum, V> : pool_by<Sum, V>)(weights, queries, column_end, columns, row_end,
                                                    rows, cells, stride);
}

}  // namespace
}  // namespace rapt::RAPT_ISA
