#pragma once
// Handles rows with elements that a route cannot multiply, by FMA. Tile registers multiply f32 as a
// sum of bf16 parts. Parts cannot hold an element that is not finite, or one so large or small that
// a part over- or underflows. The route packs such elements as 0, and this class computes what is
// missing:
//
//   scores    of pairs with such an element in either row replace those of the route
//   sums      get the contribution of such elements, in addition
//
// Each pair and each row is handled on its own, so its bits depend on no other row. The cost is one
// FMA product where such elements exist, and a scan of all rows where none do. The code is in the
// header because it is a template over E.
#include "attention/plan/scratch_plan.h"
#include "attention/rows/row_transformer.h"
#include "base/rare.h"

namespace rapt {

// One bit per key of a block.
struct BlockBits {
  uint64_t words[2] = {};
  bool any() const noexcept { return rare((words[0] | words[1]) != 0); }
  bool operator[](int64_t i) const noexcept { return words[i >> 6] >> (i & 63) & 1; }
  // The bits of `count` keys from `first` on, moved to the front.
  BlockBits part(int64_t first, int64_t count) const noexcept {
    BlockBits some;
    for (int64_t i = 0; any() && i < count; ++i)
      some.words[i >> 6] |= uint64_t{(*this)[first + i]} << (i & 63);
    return some;
  }
};
static_assert(kMostBlockKeys <= 128);

// Scratch of ExactRows.
template <class E>
struct ExactPlaces {
  Place<E> query_t;  // [dims][tile queries]
  Place<E> rows;     // [block_keys or tile queries][dims]
  Place<E> scores;   // [block_keys][tile queries]

  void reserve(ScratchPlan<E>& plan) {
    if (!rare(plan.kernels.route.find_outside != nullptr)) return;
    const int64_t dims = std::max(plan.problem.head_dim, plan.problem.value_dim);
    const int64_t keys = plan.tiling.block_keys;
    plan.worker.place(query_t, {dims, plan.tile});
    plan.worker.place(rows, {std::max(keys, plan.tile), dims});
    plan.worker.place(scores, {keys, plan.tile});
  }
};

template <class E>
class ExactRows {
 public:
  ExactRows(const Kernels<E>& kernels, const ExactPlaces<E>& places, std::byte* scratch) noexcept
      : table_(kernels.table), route_(kernels.route), places_(places), scratch_(scratch) {}

  // Whether the route has elements that it cannot multiply.
  bool used() const noexcept { return rare(route_.find_outside != nullptr); }

  // Bit i: row i has an element that the route cannot multiply. At most 128 rows.
  BlockBits find(const RowsAt& rows, int64_t count, int64_t dims) const noexcept {
    BlockBits bits;
    if (used())
      route_.find_outside(rows.data, rows.row_stride, rows.dim_stride, count, dims, bits.words);
    return bits;
  }

  // Replaces the scores of pairs whose query or key is marked; block_max [queries] becomes the
  // maximum of all scores.
  void replace_scores(const RowsAt& query, int64_t query_count, uint64_t marked_queries,
                      const RowsAt& key, int64_t keys, const BlockBits& marked_keys, int64_t dims,
                      E factor, int vectors, E* scores /* [keys][queries] */,
                      E* block_max) const noexcept {
    const int64_t queries = vectors * table_.lanes;
    const RouteKernels<E>& fma = fma_of(query);
    E *const query_t = at(places_.query_t), *const rows = at(places_.rows);
    E* const exact = at(places_.scores);
    fma.pack_queries(query.data, query.row_stride, query.dim_stride, query_count, dims, factor,
                     queries, query_t);
    fma_of(key).pack_keys(key.data, key.row_stride, key.dim_stride, keys, dims, rows);
    fma.products[vectors - 1].scores(query_t, rows, dims, keys, dims, E(1), exact, block_max);
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t i = 0; i < queries; ++i)
        if (marked_keys[j] || (marked_queries >> i & 1))
          scores[j * queries + i] = exact[j * queries + i];
    table_.find_max(scores, keys, queries, block_max);
  }

  // output_t [dims][queries] += the sum over keys of weights [keys][queries] times the elements
  // that the route packed as 0. Pairs whose bit in `bits` [keys] is clear contribute nothing; null:
  // all pairs contribute.
  void add_output(const RowsAt& rows, int64_t keys, int64_t dims, const E* weights,
                  const uint64_t* bits, int vectors, E* output_t) const noexcept {
    const E* const outside = outside_of(rows, keys, dims);
    const RouteKernels<E>& fma = fma_of(rows);
    if (bits)
      fma.output_of_bits(weights, bits, outside, dims, keys, dims, nullptr, vectors * table_.lanes,
                         output_t);
    else
      fma.products[vectors - 1].output(weights, outside, dims, keys, dims, nullptr, output_t);
  }

  // gradient [keys, dims] += the sum over queries of weights [keys][queries] times the elements
  // that the route packed as 0. `bits` as for add_output().
  void add_to_keys(const RowsAt& rows, int64_t count, int64_t dims, const E* weights,
                   const uint64_t* bits, int64_t queries, int64_t keys, E* gradient,
                   int64_t stride) const noexcept {
    const GradientSpan<E> span{weights, queries, outside_of(rows, count, dims), dims, count, bits};
    const KeyGradientKernels<E>& sums = fma_of(rows).key_gradients;
    (bits ? sums.add_of_bits : sums.add)(&span, 1, keys, dims, gradient, stride);
  }

 private:
  const RouteKernels<E>& fma_of(const RowsAt& rows) const noexcept {
    return *table_.fma[static_cast<int>(rows.dtype)];
  }
  // The elements of the rows that the route packed as 0; all others are 0.
  const E* outside_of(const RowsAt& rows, int64_t count, int64_t dims) const noexcept {
    E* const outside = at(places_.rows);
    route_.take_outside(rows.data, rows.row_stride, rows.dim_stride, count, dims, outside);
    return outside;
  }
  E* at(const Place<E>& place) const noexcept { return place.in(scratch_); }

  const KernelTable<E>& table_;
  const RouteKernels<E>& route_;
  const ExactPlaces<E>& places_;
  std::byte* scratch_;
};

}  // namespace rapt
