#pragma once
// Rows with numbers that a route cannot multiply: tile registers take f32 as sums of bf16, which
// loses what is not finite, and what is so large or small that parts of it over- or underflow. The
// route packs such elements as 0, and this does by FMA what is missing:
//
//   scores    of pairs of which one row has such an element, instead of the route's
//   sums      what such elements give to them, in addition
//
// Each pair and each row counts for itself, so that bits depend on no others. It costs a product by
// FMA where there are such elements, and a look at all rows where there are none.
#include "attention/plan/scratch_layout.h"
#include "attention/plan/scratch_places.h"
#include "attention/rows/row_transformer.h"

namespace rapt {

// One bit per key of a block.
struct BlockBits {
  uint64_t words[2] = {};
  bool any() const noexcept { return (words[0] | words[1]) != 0; }
  bool operator[](int64_t i) const noexcept { return words[i >> 6] >> (i & 63) & 1; }
  // Those of `count` keys from `first` on, as the first.
  BlockBits part(int64_t first, int64_t count) const noexcept {
    BlockBits some;
    for (int64_t i = 0; any() && i < count; ++i)
      some.words[i >> 6] |= uint64_t{(*this)[first + i]} << (i & 63);
    return some;
  }
};
static_assert(kMostBlockKeys <= 128);

template <class E>
class ExactRows {
 public:
  ExactRows(const Kernels<E>& kernels, const ExactScratch& places, std::byte* scratch) noexcept
      : table_(kernels.table),
        route_(kernels.route),
        query_t_(reinterpret_cast<E*>(scratch + places.query_t)),
        rows_(reinterpret_cast<E*>(scratch + places.rows)),
        scores_(reinterpret_cast<E*>(scratch + places.scores)) {}

  // Does the route leave anything out?
  bool used() const noexcept { return route_.find_outside != nullptr; }

  // Bit i: has row i, of at most 128, an element that the route leaves out?
  BlockBits find(const RowsAt& rows, int64_t count, int64_t dims) const noexcept {
    BlockBits bits;
    if (used())
      route_.find_outside(rows.data, rows.row_stride, rows.dim_stride, count, dims, bits.words);
    return bits;
  }

  // Scores of the pairs (query, key) of which one is marked; block_max [queries] of all.
  void replace_scores(const RowsAt& query, int64_t query_count, uint64_t marked_queries,
                      const RowsAt& key, int64_t keys, const BlockBits& marked_keys, int64_t dims,
                      E factor, int vectors, E* scores /* [keys][queries] */,
                      E* block_max) const noexcept {
    const int64_t queries = vectors * table_.lanes;
    const RouteKernels<E>& fma = fma_of(query);
    fma.pack_queries(query.data, query.row_stride, query.dim_stride, query_count, dims, factor,
                     queries, query_t_);
    fma_of(key).pack_keys(key.data, key.row_stride, key.dim_stride, keys, dims, rows_);
    fma.products[vectors - 1].scores(query_t_, rows_, dims, keys, dims, E(1), scores_, block_max);
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t i = 0; i < queries; ++i)
        if (marked_keys[j] || (marked_queries >> i & 1))
          scores[j * queries + i] = scores_[j * queries + i];
    table_.find_max(scores, keys, queries, block_max);
  }

  // output_t [dims][queries] += the sum over keys of weights [keys][queries] times what is left out
  // of their rows. `bits` [keys]: of other pairs nothing counts; null: all do.
  void add_output(const RowsAt& rows, int64_t keys, int64_t dims, const E* weights,
                  const uint64_t* bits, int vectors, E* output_t) const noexcept {
    take_outside(rows, keys, dims);
    const RouteKernels<E>& fma = fma_of(rows);
    if (bits)
      fma.output_of_bits(weights, bits, rows_, dims, keys, dims, nullptr, vectors * table_.lanes,
                         output_t);
    else
      fma.products[vectors - 1].output(weights, rows_, dims, keys, dims, nullptr, output_t);
  }

  // gradient [keys, dims] += the sum over queries of weights [keys][queries] times what is left out
  // of their rows, likewise.
  void add_to_keys(const RowsAt& rows, int64_t count, int64_t dims, const E* weights,
                   const uint64_t* bits, int64_t queries, int64_t keys, E* gradient,
                   int64_t stride) const noexcept {
    take_outside(rows, count, dims);
    const GradientSpan<E> span{weights, queries, rows_, dims, count, bits};
    const KeyGradientKernels<E>& sums = fma_of(rows).key_gradients;
    (bits ? sums.add_of_bits : sums.add)(&span, 1, keys, dims, gradient, stride);
  }

 private:
  const RouteKernels<E>& fma_of(const RowsAt& rows) const noexcept {
    return *table_.fma[static_cast<int>(rows.dtype)];
  }
  void take_outside(const RowsAt& rows, int64_t count, int64_t dims) const noexcept {
    route_.take_outside(rows.data, rows.row_stride, rows.dim_stride, count, dims, rows_);
  }

  const KernelTable<E>& table_;
  const RouteKernels<E>& route_;
  E *query_t_, *rows_, *scores_;
};

}  // namespace rapt
