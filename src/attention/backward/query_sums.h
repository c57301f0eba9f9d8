#pragma once
// Gradients that are sums over d_query: d_scale = sum of d_query . query, and those of biases that
// are added to queries (rapt/relative.h). The code is in the header because it is a template over
// E.
#include "attention/backward/gradient_rows.h"
#include "attention/backward/query_unit.h"

namespace rapt {

// Where biases are added to queries: d_query sums of a walk, from keys and from key_rows.
template <class E>
struct QuerySumPlaces {
  Place<E> content, position;  // tiles [head_dim][queries] each

  void reserve(GradientScratch<E>& scratch) {
    if (!scratch.wanted.query_sums() || !scratch.problem.rows.adds_biases) return;
    scratch.worker.place(content, {scratch.unit, scratch.problem.head_dim});
    scratch.worker.place(position, {scratch.unit, scratch.problem.head_dim});
  }
};

template <class E>
class QuerySums {
 public:
  QuerySums(const BackwardCall<E>& call, const ScoreTiles<E>& tiles, const GradientRows<E>& rows)
      : call_(call),
        p_(call.problem()),
        gradients_(call.forward.kernels.table.gradients),
        tiles_(tiles),
        rows_(rows) {}

  // Query rows before packing: in the caller's memory, or transformed.
  RowsAt query_rows(Positions at, std::byte* transformed) const noexcept {
    if (!p_.rows.any()) return tiles_.original_queries(at);
    return {transformed, p_.dtype, p_.head_dim, 1};
  }

  // Adds the d_query sums of a walk, summed over the queries, to the gradients of the query biases.
  void add_query_bias_gradients(const QueryUnit<E>& unit) noexcept {
    const QueryTile<E>* const tile = tiles_.at(call_.layout.tiles.tiles);
    const E* const of_walk[] = {unit.content_sums, unit.position_sums};
    double* sum = unit.query_bias_sums;
    for (const E* sums : of_walk)
      for (int64_t d = 0; d < p_.head_dim; ++d, ++sum)
        for (int64_t i = 0; i < unit.tile_count; ++i)
          *sum += gradients_.sum_of_tile(sums + tile[i].offset * p_.head_dim + d * tile[i].queries,
                                         tile[i].queries);
  }

  // dots [queries] += d_query . query. A query whose d_query is 0, such as one without keys, adds 0
  // even if its elements are not finite.
  void add_dots(const QueryTile<E>& tile, const RowsAt& rows, const E* d_query_t,
                E* dots) noexcept {
    E* const query_t = tiles_.at(call_.layout.tiles.rows_t);
    E* const more = tiles_.row(kPartialDots);
    rows_.widening(p_.query).pack_queries(rows.data, rows.row_stride, rows.dim_stride,
                                          tile.positions.count, p_.head_dim, E(1), tile.queries,
                                          query_t);
    std::fill_n(more, tile.queries, E(0));
    gradients_.add_dots(d_query_t, query_t, p_.head_dim, tile.queries, more);
    for (int64_t i = 0; i < tile.positions.count; ++i) {
      bool zero = more[i] - more[i] != 0;  // not finite
      for (int64_t d = 0; zero && d < p_.head_dim; ++d) zero = d_query_t[d * tile.queries + i] == 0;
      if (!zero) dots[i] += more[i];
    }
  }
  // The same for queries to which biases are added: heads with different biases may share d_query
  // sums.
  void add_dots(const QueryUnit<E>& unit) noexcept {
    const QueryTile<E>* const tile = tiles_.at(call_.layout.tiles.tiles);
    for (int64_t i = 0; i < unit.tile_count; ++i) {
      const int64_t at = tile[i].offset;
      const auto add = [&](std::byte* rows, const E* sums) {
        add_dots(tile[i], query_rows(tile[i].positions, rows), sums + at * p_.head_dim,
                 unit.query_dots + at);
      };
      add(unit.arrays.transformed_query(at), unit.content_sums);
      add(unit.arrays.position_query(at), unit.position_sums);
    }
  }

 private:
  const BackwardCall<E>& call_;
  const Problem& p_;
  const GradientKernels<E>& gradients_;
  const ScoreTiles<E>& tiles_;
  const GradientRows<E>& rows_;
};

}  // namespace rapt
