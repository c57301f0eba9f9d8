#pragma once
// The side of a pass that is summed: tokens s with features phi_s, a row y_s and a unit u_s, and
// the state, sums over the chunks before of phi_s (y_s, u_s).
//
//   forward, gradients of queries   s = keys, in order       y = value     u = 1
//   gradients of keys               s = queries, backwards   y = d_num     u = d_den
//
// A block is a few chunks whose features are kept at once. One chunk, if a thread computes a head
// alone; several, if threads share a head: they make features chunk by chunk, states by ranges of
// features, then what is read from these. So every state is one chain over the chunks, whoever
// computes it.
#include <algorithm>
#include <limits>

#include "method/linear/token_features.h"

namespace rapt {

// The power of a state without tokens: below that of any token.
template <class E>
inline constexpr E kNoPower = -std::numeric_limits<E>::max() / 4;

template <class E>
struct ChunkSumsPlaces {
  int64_t slots, states;           // chunks of a block; states at once: 1, or slots + 1
  ComponentPlace<E> features;      // [slots x features][kChunk]
  ComponentPlace<E> powers;        // [slots][kChunk] of tokens
  ComponentPlace<E> rows;          // [slots x kChunk][value_dim] y, unless it is read in place
  ComponentPlace<E> units;         // [slots][kChunk]
  ComponentPlace<E> sums;          // [states x features][value_dim]
  ComponentPlace<E> totals;        // [states][features]
  ComponentPlace<E> state_powers;  // [slots + 1]
  ComponentPlace<unsigned char> finite;  // [slots]
};

// What a worker needs to add chunks to a state.
template <class E>
struct AddChunkPlaces {
  Place<E> factors;  // [kChunk]
  Place<E> rows;     // [kChunk][value_dim] y times powers of two
};

template <class E>
ChunkSumsPlaces<E> place_chunk_sums(const LinearCall<E>& c, int64_t slots, bool snapshots,
                                    ScratchPlanner<Per::component>& planner) {
  const int64_t features = c.model.features;
  ChunkSumsPlaces<E> places;
  places.slots = slots, places.states = snapshots ? slots + 1 : 1;
  planner.place(places.features, {slots * features, kChunk});
  planner.place(places.powers, {slots, kChunk});
  planner.place(places.rows, {slots * kChunk, c.p.value_dim});
  planner.place(places.units, {slots, kChunk});
  planner.place(places.sums, {places.states * features, c.p.value_dim});
  planner.place(places.totals, {places.states, features});
  planner.place(places.state_powers, {slots + 1});
  planner.place(places.finite, {slots});
  return places;
}

template <class E>
AddChunkPlaces<E> place_add_chunk(const LinearCall<E>& c, ScratchPlanner<Per::worker>& planner) {
  AddChunkPlaces<E> places;
  planner.place(places.factors, {kChunk});
  planner.place(places.rows, {kChunk, c.p.value_dim});
  return places;
}

// The tokens that are summed.
template <class E>
struct SummedTokens {
  TensorView x, y;  // [length, head_dim], [length, value_dim]
  int64_t length;
  E factor;  // of x
  // [length] Null: 1, 1, and the powers of the features.
  const E* y_factors = nullptr;
  const E* units = nullptr;
  const E* powers = nullptr;
};

// A state, or a part of it that a range of features has.
template <class E>
struct LinearState {
  E* sums;    // [features][value_dim]
  E* totals;  // [features]
  E power;
};

template <class E>
class ChunkSums {
 public:
  ChunkSums(const LinearCall<E>& c, const ChunkSumsPlaces<E>& places, const SummedTokens<E>& tokens,
            std::byte* memory)
      : c_(c), places_(places), tokens_(tokens), memory_(memory) {}

  // The state before the first chunk: 0, or what the caller has written to state(0).
  void begin(bool from_zero) noexcept {
    if (!from_zero) return;
    const LinearState<E> first = state(0);
    std::fill_n(first.sums, c_.model.features * c_.p.value_dim, E(0));
    std::fill_n(first.totals, c_.model.features, E(0));
    set_power(0, kNoPower<E>);
  }

  int64_t count(int64_t chunk) const noexcept {
    return std::clamp<int64_t>(tokens_.length - chunk * kChunk, 0, kChunk);
  }

  // Makes the features of a chunk, in a slot of the block.
  void prepare(int64_t slot, int64_t chunk, TokenFeatures<E>& maker, bool check_features) noexcept {
    const int64_t first = chunk * kChunk, n = count(chunk), dims = c_.p.value_dim;
    E* const powers = powers_of(slot);
    for (int64_t t = 0; t < n; t += c_.tile)
      maker.make({tokens_.x, first + t, std::min(c_.tile, n - t)}, tokens_.factor,
                 features_of(slot) + t, kChunk, powers + t);
    if (!c_.powers()) std::fill_n(powers, kChunk, E(0));
    if (tokens_.powers) std::copy_n(tokens_.powers + first, n, powers);
    E* const units = places_.units.in(memory_, slot);
    for (int64_t t = 0; t < kChunk; ++t)
      units[t] = t >= n ? E(0) : tokens_.units ? tokens_.units[first + t] : E(1);
    if (!in_place() && n > 0) {
      E* const rows = places_.rows.in(memory_, slot * kChunk);
      c_.route_of_rows(tokens_.y.dtype)
          .pack_values(y_data(first), tokens_.y.strides[0], tokens_.y.strides[1], n, dims, rows);
      if (tokens_.y_factors)
        for (int64_t t = 0; t < n; ++t)
          c_.kernels.scale_and_add(rows + t * dims, tokens_.y_factors[first + t], nullptr, dims,
                                   rows + t * dims);
    }
    const DenseRows<E> rows = rows_of(slot, chunk);
    bool finite = c_.route.all_finite(rows.data, rows.stride, n, dims);
    for (int64_t t = 0; t < n; ++t) finite &= units[t] - units[t] == 0;
    if (check_features && n > 0)
      finite &= c_.route.all_finite(features_of(slot), kChunk, c_.model.features, n);
    *places_.finite.in(memory_, slot) = finite;
  }

  // Sets the powers of the states behind the chunk of a slot.
  void find_power(int64_t slot, int64_t chunk) noexcept {
    E most = power(slot);
    const E* const powers = powers_of(slot);
    for (int64_t t = 0; t < count(chunk); ++t) most = std::max(most, powers[t]);
    set_power(slot + 1, most);
  }

  // Adds the chunk of a slot to its state, for the features [begin, end). With one state, it is
  // changed in place; else the next one is written.
  void add(int64_t slot, int64_t chunk, int64_t begin, int64_t end, const AddChunkPlaces<E>& places,
           std::byte* scratch) noexcept {
    const int64_t n = count(chunk), dims = c_.p.value_dim, features = end - begin;
    const LinearState<E> from = state(slot), to = state(slot + 1);
    const E before = from.power, after = to.power;
    E* const sums = to.sums + begin * dims;
    E* const totals = to.totals + begin;
    if (before != after || to.sums != from.sums) {
      E factor = 0;  // of a state without tokens
      if (before > kNoPower<E>) c_.kernels.powers_between(&before, after, 1, &factor);
      c_.kernels.scale_and_add(from.sums + begin * dims, factor, nullptr, features * dims, sums);
      c_.kernels.scale_and_add(from.totals + begin, factor, nullptr, features, totals);
    }
    if (n == 0) return;
    E* const factors = places.factors.in(scratch);
    const E* const units = units_of(slot);
    DenseRows<E> rows = rows_of(slot, chunk);
    if (c_.powers()) {
      E* const scaled = places.rows.in(scratch);
      c_.kernels.powers_between(powers_of(slot), after, n, factors);
      for (int64_t t = 0; t < n; ++t)
        c_.kernels.scale_and_add(rows.data + t * rows.stride, factors[t], nullptr, dims,
                                 scaled + t * dims);
      rows = {scaled, dims};
    }
    const E* const of = features_of(slot) + begin * kChunk;
    const GradientSpan<E> span{of, kChunk, rows.data, rows.stride, n, nullptr};
    c_.route.key_gradients.add(&span, 1, features, dims, sums, dims);
    for (int64_t t = 0; t < kChunk; ++t)
      factors[t] = t >= n ? E(0) : c_.powers() ? factors[t] * units[t] : units[t];
    c_.kernels.add_row_sums(of, kChunk, features, factors,
                            (n + c_.table.lanes - 1) / c_.table.lanes * c_.table.lanes, totals);
  }

  // The state before the chunk of a slot.
  LinearState<E> state(int64_t slot) const noexcept {
    const int64_t nth = places_.states == 1 ? 0 : slot;
    return {places_.sums.in(memory_, nth * c_.model.features), places_.totals.in(memory_, nth),
            power(slot)};
  }
  // The state behind the last chunk of a block becomes that before its first.
  void carry(int64_t slots) noexcept {
    const LinearState<E> from = state(slots), to = state(0);
    if (from.sums != to.sums) {
      std::copy_n(from.sums, c_.model.features * c_.p.value_dim, to.sums);
      std::copy_n(from.totals, c_.model.features, to.totals);
    }
    set_power(0, from.power);
  }
  void set_power(int64_t slot, E power) noexcept { *(powers_of_states() + slot) = power; }

  E* features_of(int64_t slot) const noexcept {
    return places_.features.in(memory_, slot * c_.model.features);
  }
  E* powers_of(int64_t slot) const noexcept { return places_.powers.in(memory_, slot); }
  const E* units_of(int64_t slot) const noexcept { return places_.units.in(memory_, slot); }
  bool finite(int64_t slot) const noexcept { return *places_.finite.in(memory_, slot) != 0; }
  // The rows y of a chunk.
  DenseRows<E> rows_of(int64_t slot, int64_t chunk) const noexcept {
    if (in_place())
      return {reinterpret_cast<const E*>(y_data(chunk * kChunk)), tokens_.y.strides[0]};
    return {places_.rows.in(memory_, slot * kChunk), c_.p.value_dim};
  }

 private:
  bool in_place() const noexcept {
    return tokens_.y.dtype == dtype_of<E>() && tokens_.y.strides[1] == 1 && !tokens_.y_factors;
  }
  const std::byte* y_data(int64_t row) const noexcept {
    return static_cast<const std::byte*>(tokens_.y.data) +
           row * tokens_.y.strides[0] * size_of(tokens_.y.dtype);
  }
  E* powers_of_states() const noexcept { return places_.state_powers.in(memory_); }
  E power(int64_t slot) const noexcept { return powers_of_states()[slot]; }

  const LinearCall<E>& c_;
  const ChunkSumsPlaces<E>& places_;
  const SummedTokens<E>& tokens_;
  std::byte* memory_;
};

}  // namespace rapt
