#pragma once
// The products of the backward pass: weights and d_scores of tiles are multiplied by rows and added
// to d_query, d_key and d_value. Formulas: rapt/backward.h. The code is in the header because it is
// a template over E.
#include "attention/backward/distance_sums.h"
#include "attention/backward/gradient_keys.h"
#include "attention/backward/gradient_rows.h"
#include "attention/backward/query_unit.h"

namespace rapt {

// Where the sums of the current keys are kept.
template <class E>
struct KeySums {
  E *d_key = nullptr, *d_value = nullptr;  // of key `begin`
  int64_t d_key_stride = 0, d_value_stride = 0;
  int64_t begin = 0;
  double *bias_sum = nullptr, *score_sums = nullptr;  // of the cell
  DistanceWindows<E> windows;                         // of the chunk
};

template <class E>
class GradientProducts {
 public:
  GradientProducts(const BackwardCall<E>& call, const ScoreTiles<E>& tiles, GradientKeys<E>& keys,
                   const GradientRows<E>& rows)
      : p_(call.problem()),
        key_rows_(call.forward.key),
        wanted_(call.wanted),
        places_(call.layout.tiles),
        route_(call.forward.kernels.route),
        tiles_(tiles),
        keys_(keys),
        rows_(rows) {}

  // d_query sums of the tile += keys times their d_scores d [keys][queries].
  void add_to_queries(const QueryUnit<E>& unit, const QueryTile<E>& tile, Positions keys,
                      const E* d, const uint64_t* bits) noexcept {
    E* const sums = unit.content_sums + tile.offset * p_.head_dim;
    const void* d_scores = d;
    if (route_.rounds()) {
      std::byte* const rounded = tiles_.at(places_.d_scores_of_query);
      route_.round_weights(d, keys.count, tile.queries, rounded);
      d_scores = rounded;
    }
    const Rows rows = keys_.summed_keys(keys.start);
    if (bits && !keys_.finite(keys))
      route_.output_of_bits(d_scores, bits, rows.data, rows.stride, keys.count, p_.head_dim,
                            nullptr, tile.queries, sums);
    else
      route_.products[tile.vectors - 1].output(d_scores, rows.data, rows.stride, keys.count,
                                               p_.head_dim, nullptr, sums);
    if (keys_.keys_outside(keys).any())
      tiles_.exact().add_output(tiles_.rows_at(key_rows_, keys.start), keys.count, p_.head_dim, d,
                                bits, tile.vectors, sums);
  }

  // Weights or d_scores of a tile, as an operand of the sums over queries, with the rows that they
  // multiply. `rows` begin at the work unit's first query. `rounded`: memory for a route that
  // rounds; else null.
  GradientSpan<E> span_of(const QueryTile<E>& tile, Positions keys, const E* of, std::byte* rounded,
                          const Rows& rows, const uint64_t* bits) const noexcept {
    const void* multiplied = of;
    if (route_.rounds()) {
      route_.round_for_keys(of, keys.count, tile.queries, rounded);
      multiplied = rounded;
    }
    return {multiplied,
            tile.queries,
            rows.data + tile.offset * rows.stride * route_.element_size,
            rows.stride,
            tile.positions.count,
            bits};
  }

  // Adds the work unit to d_key and d_value. `partial`: some spans have bits.
  void add_to_keys(QueryUnit<E>& unit, const GradientSpan<E>* weights,
                   const GradientSpan<E>* d_scores, int64_t spans, bool partial, Positions keys,
                   const KeySums<E>& sums) const noexcept {
    const int64_t at = keys.start - sums.begin;
    const auto add = [&](const GradientSpan<E>* of, Finite& finite, const Rows& rows, int64_t dims,
                         E* gradient, int64_t stride) {
      // 0 * NaN is NaN: see Forward::add_values().
      const bool slow = partial && !rows_finite(finite, rows, unit.positions.count, dims);
      const KeyGradientKernels<E>& kernels = route_.key_gradients;
      (slow ? kernels.add_of_bits : kernels.add)(of, spans, keys.count, dims,
                                                 gradient + at * stride, stride);
    };
    if (wanted_.value)
      add(weights, unit.d_output_finite, unit.d_output_rows, p_.value_dim, sums.d_value,
          sums.d_value_stride);
    if (wanted_.key)
      add(d_scores, unit.query_finite, unit.query_rows, p_.head_dim, sums.d_key, sums.d_key_stride);
  }

  // Whether all rows in the sums of the work unit and these keys are finite.
  bool finite(QueryUnit<E>& unit, Positions keys, Sides sides) noexcept {
    const int64_t count = unit.positions.count;
    return (!unit.d_query_t || keys_.finite(keys)) &&
           (!sides.keys || !wanted_.value ||
            rows_finite(unit.d_output_finite, unit.d_output_rows, count, p_.value_dim)) &&
           (!sides.keys || !wanted_.key ||
            rows_finite(unit.query_finite, unit.query_rows, count, p_.head_dim));
  }

  // Adds the rows of the tile that the route cannot multiply to the sums over queries.
  void add_exact_to_keys(const QueryTile<E>& tile, Positions keys, const E* w, const E* d,
                         const uint64_t* bits, const KeySums<E>& sums) const noexcept {
    const int64_t at = keys.start - sums.begin, count = tile.positions.count;
    if (wanted_.value && tile.d_output_outside != 0)
      tiles_.exact().add_to_keys(rows_.d_output_at(tile.positions), count, p_.value_dim, w, bits,
                                 tile.queries, keys.count, sums.d_value + at * sums.d_value_stride,
                                 sums.d_value_stride);
    if (wanted_.key && tile.outside != 0)
      tiles_.exact().add_to_keys(tile.rows, count, p_.head_dim, d, bits, tile.queries, keys.count,
                                 sums.d_key + at * sums.d_key_stride, sums.d_key_stride);
  }

 private:
  bool rows_finite(Finite& known, const Rows& rows, int64_t count, int64_t dims) const noexcept {
    return known.known_or([&] { return route_.all_finite(rows.data, rows.stride, count, dims); });
  }

  const Problem& p_;
  const Operand& key_rows_;
  const WantedGradients& wanted_;
  const GradientTilePlaces<E>& places_;
  const RouteKernels<E>& route_;
  const ScoreTiles<E>& tiles_;
  GradientKeys<E>& keys_;
  const GradientRows<E>& rows_;
};

}  // namespace rapt
