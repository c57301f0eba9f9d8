#pragma once
// The side of a pass that reads sums: a tile of tokens in lanes, against the state before its chunk
// and, if causal, against the summed tokens of the chunk that serve it.
//
//   output = sum_s w_s y_s,  weight_sum = sum_s w_s u_s        w_s = phi_s . phi
//   d_phi  = sum_s phi_s (y_s . d_y + u_s d_u)
//
// All are multiplied by 2^-row_power: the largest power of what is summed, or what the pass says.
#include "method/linear/chunk_sums.h"

namespace rapt {

template <class E>
struct LaneTilePlaces {
  TokenFeaturesPlaces<E> maker;
  Place<E> features;     // [features][tile]
  Place<E> powers;       // [tile]
  Place<E> output_t;     // [value_dim][tile]
  Place<E> weights;      // [kChunk][tile]
  Place<uint64_t> bits;  // [kChunk]
  Place<E> columns;      // [5][tile]
  Place<E> d_features;   // [features][tile], as all below, for gradients only
  Place<E> of_chunk;     // [features][tile]
  Place<E> d_y_t;        // [value_dim][tile]
  Place<E> scaled_t;     // [value_dim][tile]
  Place<E> by_token;     // [kChunk][features], for chunks that are not finite
};

template <class E>
LaneTilePlaces<E> place_lane_tile(const LinearCall<E>& c, bool gradients,
                                  ScratchPlanner<Per::worker>& planner) {
  const int64_t features = c.model.features, tile = c.tile, dims = c.p.value_dim;
  LaneTilePlaces<E> places;
  places.maker = place_token_features(c, gradients, planner);
  planner.place(places.features, {features, tile});
  planner.place(places.powers, {tile});
  planner.place(places.output_t, {std::max(dims, c.p.head_dim), tile});
  planner.place(places.weights, {kChunk, tile});
  planner.place(places.bits, {kChunk});
  planner.place(places.columns, {5, tile});
  planner.place_if(gradients, places.d_features, {features, tile});
  planner.place_if(gradients, places.of_chunk, {features, tile});
  planner.place_if(gradients, places.d_y_t, {dims, tile});
  planner.place_if(gradients, places.scaled_t, {dims, tile});
  planner.place_if(gradients, places.by_token, {kChunk, features});
  return places;
}

// The summed tokens of a tile's own chunk.
struct OwnChunk {
  int64_t slot = 0, chunk = 0;
  int64_t begin = 0, end = 0;  // those that serve any lane, within the chunk; equal: none
  int64_t first_lane = 0;      // of the tile, within the chunk
  bool backwards = false;      // does token s serve lanes up to s, or from s on?
};

template <class E>
class LaneTile {
 public:
  std::byte* const scratch;  // of the worker
  TokenFeatures<E> maker;
  E *features, *powers, *output_t;  // [features][tile], [tile], [value_dim or head_dim][tile]
  E *row_powers, *weight_sums, *state_factors, *d_units, *spare;  // [tile]
  E *d_features, *d_y_t;  // [features][tile], [value_dim][tile]; for gradients

  LaneTile(const LinearCall<E>& c, const LaneTilePlaces<E>& places, std::byte* scratch_of_worker)
      : scratch(scratch_of_worker),
        maker(c, places.maker, scratch),
        features(places.features.in(scratch)),
        powers(places.powers.in(scratch)),
        output_t(places.output_t.in(scratch)),
        row_powers(column(places, scratch, 0)),
        weight_sums(column(places, scratch, 1)),
        state_factors(column(places, scratch, 2)),
        d_units(column(places, scratch, 3)),
        spare(column(places, scratch, 4)),
        d_features(places.d_features.in_or_null(scratch)),
        d_y_t(places.d_y_t.in_or_null(scratch)),
        c_(c),
        weights_(places.weights.in(scratch)),
        bits_(places.bits.in(scratch)),
        of_chunk_(places.of_chunk.in_or_null(scratch)),
        scaled_t_(places.scaled_t.in_or_null(scratch)),
        by_token_(places.by_token.in_or_null(scratch)) {}

  // Finds which tokens of the chunk serve which lanes, and the powers of rows: the largest of the
  // state and of these tokens.
  void meet(const ChunkSums<E>& sums, const OwnChunk& own, E state_power) noexcept {
    const uint64_t all = c_.tile == 64 ? ~uint64_t{0} : (uint64_t{1} << c_.tile) - 1;
    for (int64_t s = own.begin; s < own.end; ++s) {
      const int64_t lane = s - own.first_lane;  // the one at the place of s
      uint64_t bits = lane < 0 ? all : lane >= 64 ? 0 : (~uint64_t{0} << lane) & all;
      if (own.backwards) bits = lane < 0 ? 0 : lane >= 63 ? all : ((uint64_t{2} << lane) - 1) & all;
      bits_[s - own.begin] = bits;
    }
    if (!c_.powers()) {
      std::fill_n(row_powers, c_.tile, E(0));
      std::fill_n(state_factors, c_.tile, state_power > kNoPower<E> ? E(1) : E(0));
      return;
    }
    c_.kernels.largest_powers(bits_, sums.powers_of(own.slot) + own.begin, state_power,
                              own.end - own.begin, c_.tile, row_powers);
    use_row_powers(state_power);
  }

  // Sets the factor of the state from the powers of rows, which must be at least as large as those
  // of what they sum.
  void use_row_powers(E state_power) noexcept {
    for (int64_t x = 0; x < c_.tile; ++x) spare[x] = state_power - row_powers[x];
    c_.kernels.powers_between(spare, E(0), c_.tile, state_factors);
    if (state_power <= kNoPower<E>) std::fill_n(state_factors, c_.tile, E(0));
  }

  // The lanes that sum over anything.
  uint64_t attended(const OwnChunk& own, E state_power) const noexcept {
    uint64_t any = state_power > kNoPower<E> ? ~uint64_t{0} : 0;
    for (int64_t s = 0; s < own.end - own.begin; ++s) any |= bits_[s];
    return any;
  }

  // weights [tokens of the chunk][tile]
  void weigh(const ChunkSums<E>& sums, const OwnChunk& own) noexcept {
    const int64_t n = own.end - own.begin;
    if (n == 0) return;
    std::fill_n(weights_, n * c_.tile, E(0));
    const E* const of = sums.features_of(own.slot) + own.begin;
    for_each_block([&](int64_t f, int64_t count) {
      c_.products().output(features + f * c_.tile, of + f * kChunk, kChunk, count, n, nullptr,
                           weights_);
    });
    scale(sums, own, weights_);
  }

  // weight_sums [tile] of the state and of the weights.
  void sum_weights(const ChunkSums<E>& sums, const OwnChunk& own,
                   const LinearState<E>& state) noexcept {
    std::fill_n(weight_sums, c_.tile, E(0));
    if (state.power > kNoPower<E>) {
      c_.kernels.add_weighted_rows(features, state.totals, c_.model.features, c_.tile, weight_sums);
      c_.kernels.scale_columns(weight_sums, state_factors, nullptr, 1, c_.tile, weight_sums);
    }
    const int64_t n = own.end - own.begin;
    if (n > 0)
      c_.kernels.add_weighted_rows(weights_, sums.units_of(own.slot) + own.begin, n, c_.tile,
                                   weight_sums);
  }

  // output_t from the state and the weights.
  void sum_rows(const ChunkSums<E>& sums, const OwnChunk& own,
                const LinearState<E>& state) noexcept {
    const int64_t dims = c_.p.value_dim, n = own.end - own.begin;
    std::fill_n(output_t, dims * c_.tile, E(0));
    if (state.power > kNoPower<E>)
      for_each_block([&](int64_t f, int64_t count) {
        c_.products().output(features + f * c_.tile, state.sums + f * dims, dims, count, dims,
                             nullptr, output_t);
      });
    if (n == 0) {
      if (c_.powers())
        c_.kernels.scale_columns(output_t, state_factors, nullptr, dims, c_.tile, output_t);
      return;
    }
    const DenseRows<E> rows = sums.rows_of(own.slot, own.chunk);
    const E* const first = rows.data + own.begin * rows.stride;
    if (sums.finite(own.slot))
      c_.products().output(weights_, first, rows.stride, n, dims, state_factors, output_t);
    else
      c_.route.output_of_bits(weights_, bits_, first, rows.stride, n, dims, state_factors, c_.tile,
                              output_t);
  }

  // d_features from d_y_t and d_units.
  void find_d_features(const ChunkSums<E>& sums, const OwnChunk& own,
                       const LinearState<E>& state) noexcept {
    const int64_t dims = c_.p.value_dim, n = own.end - own.begin, features_n = c_.model.features;
    const bool any = state.power > kNoPower<E>;
    if (any) {
      c_.kernels.scale_columns(d_y_t, state_factors, nullptr, dims, c_.tile, scaled_t_);
      c_.products().scores(scaled_t_, state.sums, dims, features_n, dims, E(1), d_features, spare);
      c_.kernels.scale_columns(d_units, state_factors, nullptr, 1, c_.tile, spare);
      c_.kernels.add_outer(state.totals, spare, features_n, c_.tile, d_features);
    }
    if (n > 0) add_chunk_gradients(sums, own, any);
    if (!any && n == 0) std::fill_n(d_features, features_n * c_.tile, E(0));
  }

 private:
  static E* column(const LaneTilePlaces<E>& places, std::byte* scratch, int64_t nth) noexcept {
    return places.columns.in(scratch, nth);
  }

  template <class Visit>
  void for_each_block(const Visit& visit) const noexcept {
    for (int64_t f = 0; f < c_.model.features; f += kFeatureBlock)
      visit(f, std::min(kFeatureBlock, c_.model.features - f));
  }

  void scale(const ChunkSums<E>& sums, const OwnChunk& own, E* weights) noexcept {
    c_.kernels.scale_chunk_weights(bits_,
                                   c_.powers() ? sums.powers_of(own.slot) + own.begin : nullptr,
                                   row_powers, own.end - own.begin, c_.tile, weights);
  }

  // d_features += phi_s (y_s . d_y + u_s d_u) of the chunk's tokens, or = if there is no state.
  void add_chunk_gradients(const ChunkSums<E>& sums, const OwnChunk& own, bool add) noexcept {
    const int64_t dims = c_.p.value_dim, n = own.end - own.begin, features_n = c_.model.features;
    const DenseRows<E> rows = sums.rows_of(own.slot, own.chunk);
    c_.products().scores(d_y_t, rows.data + own.begin * rows.stride, rows.stride, n, dims, E(1),
                         weights_, spare);
    c_.kernels.add_outer(sums.units_of(own.slot) + own.begin, d_units, n, c_.tile, weights_);
    scale(sums, own, weights_);
    E* const of_chunk = add ? of_chunk_ : d_features;
    if (sums.finite(own.slot)) {
      c_.products().scores(weights_, sums.features_of(own.slot) + own.begin, kChunk, features_n, n,
                           E(1), of_chunk, spare);
    } else {  // 0 times a masked feature may be NaN
      c_.table.store_rows[static_cast<int>(dtype_of<E>())](sums.features_of(own.slot), features_n,
                                                           kChunk, nullptr, ~uint64_t{0}, own.end,
                                                           by_token_, features_n, 1);
      std::fill_n(of_chunk, features_n * c_.tile, E(0));
      c_.route.output_of_bits(weights_, bits_, by_token_ + own.begin * features_n, features_n, n,
                              features_n, nullptr, c_.tile, of_chunk);
    }
    if (add) c_.kernels.scale_and_add(d_features, E(1), of_chunk, features_n * c_.tile, d_features);
  }

  const LinearCall<E>& c_;
  E* weights_;
  uint64_t* bits_;
  E *of_chunk_, *scaled_t_, *by_token_;
};

}  // namespace rapt
