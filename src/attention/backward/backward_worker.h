#pragma once
// The work of one worker on one head of a component: on a segment, a chunk or a cell, and where the
// sums are kept. Order of sums: backward_plan.h. The code is in the header because it is a template
// over E.
#include <algorithm>

#include "attention/backward/gradient_tiles.h"

namespace rapt {

// Sums of a component at work, a matrix for each slot of the plan; in two passes, over the queries
// of a work unit and the keys of a chunk.
template <class E>
struct SumPlaces {
  int64_t queries = 0, keys = 0;    // of a slot
  ComponentPlace<E> d_query_t;      // [slots] tiles [head_dim][queries]
  ComponentPlace<E> d_query_pairs;  // [slots][queries][head_dim]: sums of sparse pairs
  ComponentPlace<E> query_dots;     // [slots][queries]: d_query . query, with query biases
  ComponentPlace<E> d_key;          // [slots][keys][head_dim], if the result is narrower
  ComponentPlace<E> d_value;        // [slots][keys][value_dim], if the result is narrower
  ComponentPlace<E> key_windows;    // [parts][window_rows][head_dim]
  ComponentPlace<E> query_windows;  // the same
  ComponentPlace<E> value_windows;  // [parts][window_rows][value_dim]
  // Sums of a cell at work, if the result's rows are not dense:
  Place<E> dense_d_key;    // [chunk][head_dim]
  Place<E> dense_d_value;  // [chunk][value_dim]

  void reserve(GradientScratch<E>& scratch) {
    const Problem& p = scratch.problem;
    const WantedGradients& wanted = scratch.wanted;
    const BackwardPlan& plan = scratch.plan;
    auto& memory = scratch.component;
    queries = scratch.queries(), keys = scratch.keys();
    const int64_t* const slots = plan.slots;
    const bool query_sums = wanted.query_sums(), narrower = wanted.dtype != p.result_dtype;
    const bool pairs = has_sparse_pairs(p, scratch.kernels, scratch.options);
    memory.place_if(query_sums, d_query_t, {slots[kOfQuery], queries, p.head_dim});
    memory.place_if(query_sums && pairs, d_query_pairs, {slots[kOfQuery], queries, p.head_dim});
    memory.place_if(wanted.scale && p.rows.adds_biases, query_dots, {slots[kOfQuery], queries, 1});
    const int64_t chunk = plan.longest_chunk;
    if (wanted.key && narrower) memory.place(d_key, {slots[kOfKey], keys, p.head_dim});
    if (wanted.key && !narrower) scratch.worker.place(dense_d_key, {chunk, p.head_dim});
    if (wanted.value && narrower) memory.place(d_value, {slots[kOfValue], keys, p.value_dim});
    if (wanted.value && !narrower) scratch.worker.place(dense_d_value, {chunk, p.value_dim});
    const auto place_windows = [&](bool needed, ComponentPlace<E>& windows, int64_t dims) {
      memory.place_if(needed, windows, {plan.most_parts, plan.window_rows, dims});
    };
    place_windows(wanted.key_rows, key_windows, p.head_dim);
    place_windows(wanted.query_rows_sums, query_windows, p.head_dim);
    place_windows(wanted.value_rows, value_windows, p.value_dim);
  }
};

template <class E>
class BackwardWorker {
 public:
  BackwardWorker(const BackwardCall<E>& call, const CancelToken* cancel, int worker, int64_t slot)
      : call_(call),
        p_(call.problem()),
        plan_(call.plan),
        wanted_(call.wanted),
        layout_(call.layout),
        sums_(layout_.sums),
        tiles_(call, cancel, worker),
        memory_(layout_.components.nth(
            wanted_.two_passes ? tiles_.tiles().scratch() : call.forward.workspace, slot)) {}

  bool stopped() const noexcept { return tiles_.tiles().stopped(); }
  const Parts& parts() const noexcept { return parts_; }

  void begin_head(int64_t component, int64_t sequence, int64_t nth) noexcept {
    entry_ = *call_.at(layout_.heads, nth);
    head_ = first_head(p_, plan_, component) + entry_.head;
    tiles_.begin_head(head_, sequence);
    const Sequence& s = tiles_.tiles().sequence();
    parts_ = parts_of(plan_.tiling, s.q_len, s.k_len);
    first_cell_ = head_ * plan_.cells_per_head + call_.first_cell(sequence);
  }

  // One pass, before the first step: packs the queries of a part and clears its sums.
  void prepare(int64_t part) noexcept {
    begin_chunk(part);
    clear_bias_rows(part);
    for_each_unit(part, [&](Positions unit) {
      tiles_.pack_unit(unit, unit_arrays(unit), true, of_cell(layout_.normalizer_sums, part));
      if (wanted_.query_sums() && entry_.first[kOfQuery]) clear_queries(unit, query_sums(unit));
    });
  }

  // One pass: computes a cell.
  void step(int64_t chunk, int64_t segment) noexcept {
    const Sides sides{wanted_.query_sums() || wanted_.bias, has_key_sums()};
    walk_cell(chunk, segment, sides, [&](Positions unit) {
      QueryUnit<E> query_unit = begin_unit(unit, sides);
      query_unit.query_bias_sums = of_cell(layout_.query_bias_sums, segment);
      return query_unit;
    });
  }

  // One pass, after step `s` of all chunks: adds the windows of all chunks, in their order, to a
  // slice of the distance tables.
  void add_windows(int64_t s, int64_t slice) noexcept {
    const int64_t distances = p_.relative.distances;
    const int64_t begin = slice * distances / parts_.count;
    const int64_t end = (slice + 1) * distances / parts_.count;
    for (int64_t chunk = 0; chunk < parts_.count; ++chunk) {
      if (empty(chunk, (chunk + s) % parts_.count)) continue;
      const DistanceSpan span = span_of(chunk, (chunk + s) % parts_.count);
      const DistanceWindows<E> windows = windows_of(chunk, span);
      const int64_t first = std::max(begin, span.low), last = std::min(end, span.low + span.rows);
      add_window(windows.key, first, last, static_cast<E>(p_.scale), call_.targets.key_rows);
      add_window(windows.query, first, last, static_cast<E>(p_.scale), call_.targets.query_rows);
      if (wanted_.scale && windows.query.data)
        *of_cell(layout_.scale_sums, slice) +=
            tiles_.dots_with_query_rows(windows.query, first, last);
      add_window(windows.value, first, last, static_cast<E>(p_.kept_factor()),
                 call_.targets.value_rows);
    }
  }

  // One pass, after the last step: stores the results of a part.
  void finish(int64_t part) noexcept {
    end_chunk(part);
    if (wanted_.query_sums() && entry_.last[kOfQuery])
      for_each_unit(part, [&](Positions unit) { store_queries(part, unit, query_sums(unit)); });
  }

  // Two passes, first of all: computes delta of a segment.
  void make_deltas(int64_t segment) noexcept {
    for_each_unit(segment, [&](Positions unit) {
      pack_unit_arrays(unit, of_cell(layout_.normalizer_sums, segment), true);
    });
  }

  // Two passes, keys' side: computes a chunk over all segments.
  void run_chunk(int64_t chunk) noexcept {
    begin_chunk(chunk);
    constexpr Sides kKeys{false, true};
    for (int64_t s = 0; s < parts_.count && !stopped(); ++s)
      walk_cell(chunk, (chunk + s) % parts_.count, kKeys, [&](Positions unit) {
        pack_unit_arrays(unit, nullptr, false);
        return begin_unit(unit, kKeys);
      });
    end_chunk(chunk);
  }

  // Two passes, queries' side: computes a work unit of a segment over all chunks.
  void run_unit(int64_t segment, Positions unit) noexcept {
    constexpr Sides kQueries{true, false};
    E* const sums = query_sums(unit);
    if (sums && entry_.first[kOfQuery]) clear_queries(unit, sums);
    pack_unit_arrays(unit, nullptr, false);
    for (int64_t s = 0; s < parts_.count && !stopped(); ++s) {
      const int64_t nth = (segment - s + parts_.count) % parts_.count;
      for_each_walk(parts_.chunk(nth), unit, kQueries, [&] {
        QueryUnit<E> query_unit = begin_unit(unit, kQueries);
        tiles_.walk(query_unit, {}, kQueries);
      });
    }
    if (sums && entry_.last[kOfQuery]) store_queries(segment, unit, sums);
  }

  template <class Visit>
  void for_each_unit(int64_t segment, const Visit& visit) noexcept {
    const Positions all = parts_.segment(segment);
    const int64_t length = plan_.tiling.unit_queries;
    for (int64_t at = 0; at < all.count && !stopped(); at += length)
      visit(all.part(at, std::min(at + length, all.count)));
  }

  // Clears the gradient of a bias with one column, which no chunk clears.
  void clear_bias_rows(int64_t segment) noexcept {
    const Operand& bias = call_.targets.bias;
    if (!bias.data || bias.dim_stride != 0 || bias.row_stride == 0 || !entry_.first[kOfBias])
      return;
    for_each_unit(segment, [&](Positions unit) {
      for (int64_t i = 0; i < unit.count; ++i)
        *reinterpret_cast<E*>(tiles_.tiles().query_row(bias, unit[i])) = 0;
    });
  }

 private:
  using KeySums = rapt::KeySums<E>;

  // The sums of a cell, or null.
  double* of_cell(const CallPlace<double>& sums, int64_t part) const noexcept {
    return sums.in_or_null(call_.forward.workspace, first_cell_ + part);
  }
  // The place of a work unit's first query in arrays of the component.
  int64_t first_of(Positions unit) const noexcept { return wanted_.two_passes ? 0 : unit.start; }
  UnitArrays<E> unit_arrays(Positions unit) const noexcept {
    return {&layout_.queries, memory_, first_of(unit)};
  }
  bool has_key_sums() const noexcept {
    return wanted_.key || wanted_.value || wanted_.bias || wanted_.score_parameters ||
           wanted_.tables();
  }

  // Sums of d_query of a work unit; null: not needed.
  E* query_sums(Positions unit) const noexcept { return of_queries(sums_.d_query_t, unit); }
  // Sums of d_query . query of a work unit, for d_scale; null: not needed.
  E* query_dots(Positions unit) const noexcept { return of_queries(sums_.query_dots, unit); }
  // Sums of d_query of a work unit that are added pair by pair; null: none.
  E* query_pairs(Positions unit) const noexcept { return of_queries(sums_.d_query_pairs, unit); }
  E* of_queries(const ComponentPlace<E>& sums, Positions unit) const noexcept {
    return sums.in_or_null(memory_, entry_.slot[kOfQuery] * sums_.queries + first_of(unit));
  }
  void clear_queries(Positions unit, E* sums) const noexcept {
    const int64_t padded = plan_.tiling.padded(unit.count);
    std::fill_n(sums, padded * p_.head_dim, E(0));
    if (E* const pairs = query_pairs(unit)) std::fill_n(pairs, padded * p_.head_dim, E(0));
    if (E* const dots = query_dots(unit)) std::fill_n(dots, padded, E(0));
  }
  void store_queries(int64_t segment, Positions unit, E* sums) noexcept {
    const double dots = tiles_.store_queries(unit, unit_arrays(unit), sums, query_pairs(unit),
                                             wanted_.scale, query_dots(unit));
    if (wanted_.scale) *of_cell(layout_.scale_sums, segment) += dots;
  }

  // Two passes: packs the arrays of one work unit; computes and saves its delta, or loads it.
  void pack_unit_arrays(Positions unit, double* of_normalizer, bool with_delta) noexcept {
    const UnitArrays<E> arrays = unit_arrays(unit);
    tiles_.pack_unit(unit, arrays, with_delta, of_normalizer);
    const int rows = call_.forward.kernels.normalizer.delta_rows;
    const int64_t first = tiles_.tiles().sequence().query_begin + unit.start;
    tiles_.for_each_tile(unit, [&](QueryTile<E>& tile, int64_t offset) {
      const int64_t count = tile.positions.count;
      for (int r = 0; r < rows; ++r) {
        E* const of_tile = arrays.delta(offset) + r * tile.queries;
        E* const saved = call_.at(layout_.deltas, head_ * rows + r) + first + offset;
        if (with_delta)
          std::copy_n(of_tile, count, saved);
        else
          std::fill_n(std::copy_n(saved, count, of_tile), tile.queries - count, E(0));
      }
    });
  }
  // Starts a work unit whose arrays are packed, with its sums.
  QueryUnit<E> begin_unit(Positions unit, Sides sides) noexcept {
    QueryUnit<E> query_unit = tiles_.begin_unit(unit, unit_arrays(unit), query_sums(unit), sides);
    query_unit.query_dots = query_dots(unit);
    query_unit.d_query_pairs = query_pairs(unit);
    return query_unit;
  }

  // Loads the keys of a chunk that some of the queries attend to, as many at a time as share a walk
  // over the queries, and calls visit() for each load.
  template <class Visit>
  void for_each_walk(Positions chunk, Positions queries, Sides sides, const Visit& visit) noexcept {
    if (queries.count == 0) return;
    for (int64_t at = 0; at < chunk.count && !stopped(); at += plan_.pass_keys) {
      const int64_t end = std::min(at + plan_.pass_keys, chunk.count);
      if (tiles_.load_keys(chunk[at], chunk[end], queries, sides)) visit();
    }
  }

  // Adds the pairs of a chunk and a segment to all wanted gradients.
  template <class Begin>
  void walk_cell(int64_t chunk, int64_t segment, Sides sides, const Begin& begin_unit) noexcept {
    const Positions keys = parts_.chunk(chunk);
    KeySums sums = sides.keys ? open_sums(chunk, keys) : KeySums{};
    if (wanted_.tables() && !empty(chunk, segment)) {
      const DistanceSpan span = span_of(chunk, segment);
      sums.windows = windows_of(chunk, span);
      for (const DistanceWindow<E>& window :
           {sums.windows.key, sums.windows.query, sums.windows.value})
        if (window.data) std::fill_n(window.data, span.rows * window.dims, E(0));
    }
    for_each_walk(keys, parts_.segment(segment), sides, [&] {
      for_each_unit(segment, [&](Positions positions) {
        if (!tiles_.walk_adds(positions)) return;
        QueryUnit<E> unit = begin_unit(positions);
        tiles_.walk(unit, sums, sides);
      });
    });
    if (sides.keys) close_sums(keys, sums);
  }

  // Whether the cell has no pair.
  bool empty(int64_t chunk, int64_t segment) const noexcept {
    return parts_.chunk(chunk).count == 0 || parts_.segment(segment).count == 0;
  }
  // The table rows of the distances between a chunk and a segment, and the chunk's windows of sums
  // for these rows.
  DistanceSpan span_of(int64_t chunk, int64_t segment) const noexcept {
    const Positions queries = parts_.segment(segment);
    return tiles_.tiles().relative().span_of(parts_.chunk(chunk), queries,
                                             plan_.tiling.padded(queries.count));
  }
  DistanceWindows<E> windows_of(int64_t chunk, const DistanceSpan& span) const noexcept {
    const auto window = [&](const ComponentPlace<E>& windows, int64_t dims) {
      E* const data = windows.in_or_null(memory_, chunk * plan_.window_rows);
      return DistanceWindow<E>{data, span.low, dims};
    };
    return {window(sums_.key_windows, p_.head_dim), window(sums_.query_windows, p_.head_dim),
            window(sums_.value_windows, p_.value_dim)};
  }
  void add_window(const DistanceWindow<E>& window, int64_t begin, int64_t end, E factor,
                  const Operand& target) const noexcept {
    if (!window.data || !target.data) return;
    int64_t index[kMaxRank];
    p_.index_of(head_, index);
    const int64_t matrix = target.offset_of(index, p_.leading_rank);
    for (int64_t row = begin; row < end; ++row) {
      const E* const from = window.row(row);
      auto* const to = reinterpret_cast<E*>(target.at(matrix + row * target.row_stride));
      for (int64_t d = 0; d < window.dims; ++d) to[d * target.dim_stride] += factor * from[d];
    }
  }

  // The sums of d_key or of d_value over the queries.
  struct KeySide {
    GradientOf of;
    const Operand& target;
    int64_t dims;
    const ComponentPlace<E>& sums;
    const Place<E>& dense;
    // Where they are made: in the result; in scratch, if the result is narrower; in a dense copy
    // while a cell is at work, if the result's rows are not dense.
    enum class In : uint8_t { nowhere, target, scratch, dense_copy } in;
  };
  KeySide key_side() const noexcept {
    return side(kOfKey, wanted_.key, call_.targets.key, p_.head_dim, sums_.d_key,
                sums_.dense_d_key);
  }
  KeySide value_side() const noexcept {
    return side(kOfValue, wanted_.value, call_.targets.value, p_.value_dim, sums_.d_value,
                sums_.dense_d_value);
  }
  KeySide side(GradientOf of, bool wanted, const Operand& target, int64_t dims,
               const ComponentPlace<E>& sums, const Place<E>& dense) const noexcept {
    using In = typename KeySide::In;
    const In in = !wanted || !target.data           ? In::nowhere
                  : target.dtype != p_.result_dtype ? In::scratch
                  : target.dim_stride == 1          ? In::target
                                                    : In::dense_copy;
    return {of, target, dims, sums, dense, in};
  }
  struct SumRows {
    E* data = nullptr;
    int64_t stride = 0;
  };
  // The sums of the keys of a chunk.
  SumRows rows_of(const KeySide& side, Positions keys) const noexcept {
    switch (side.in) {
      case KeySide::In::nowhere:
        return {};
      case KeySide::In::target:
        return {reinterpret_cast<E*>(tiles_.tiles().key_row(side.target, keys.start)),
                side.target.row_stride};
      case KeySide::In::scratch: {
        const int64_t first = wanted_.two_passes ? 0 : keys.start;
        return {side.sums.in(memory_, entry_.slot[side.of] * sums_.keys + first), side.dims};
      }
      default:
        return {tiles_.tiles().at(side.dense), side.dims};
    }
  }

  KeySums open_sums(int64_t chunk, Positions keys) noexcept {
    KeySums sums;
    sums.begin = keys.start;
    const auto open = [&](const KeySide& side, E*& data, int64_t& stride) {
      const SumRows rows = rows_of(side, keys);
      data = rows.data, stride = rows.stride;
      if (side.in == KeySide::In::dense_copy) load_dense(side, keys);
    };
    open(key_side(), sums.d_key, sums.d_key_stride);
    open(value_side(), sums.d_value, sums.d_value_stride);
    sums.bias_sum = of_cell(layout_.bias_sums, chunk);
    sums.score_sums = of_cell(layout_.score_sums, chunk);
    return sums;
  }
  void close_sums(Positions keys, const KeySums& sums) noexcept {
    if (const KeySide key = key_side(); key.in == KeySide::In::dense_copy)
      store(key, keys, {sums.d_key, key.dims}, E(1));
    if (const KeySide value = value_side(); value.in == KeySide::In::dense_copy)
      store(value, keys, {sums.d_value, value.dims}, E(1));
  }
  // Reads the target's rows to the dense copy.
  void load_dense(const KeySide& side, Positions keys) const noexcept {
    const Operand& from = side.target;
    call_.forward.kernels.table.fma[static_cast<int>(from.dtype)]->pack_keys(
        tiles_.tiles().key_row(from, keys.start), from.row_stride, from.dim_stride, keys.count,
        side.dims, tiles_.tiles().at(side.dense));
  }
  void store(const KeySide& side, Positions keys, const SumRows& from, E factor) const noexcept {
    const Operand& target = side.target;
    call_.forward.kernels.table.gradients.store_key_rows[static_cast<int>(target.dtype)](
        from.data, from.stride, keys.count, side.dims, factor,
        tiles_.tiles().key_row(target, keys.start), target.row_stride, target.dim_stride);
  }

  // Clears the sums that begin with this head.
  void begin_chunk(int64_t chunk) noexcept {
    const Positions keys = parts_.chunk(chunk);
    for (const KeySide& side : {key_side(), value_side()}) {
      if (side.in == KeySide::In::nowhere || !entry_.first[side.of]) continue;
      const SumRows rows = rows_of(side, keys);
      for (int64_t j = 0; j < keys.count; ++j)
        std::fill_n(rows.data + j * rows.stride, side.dims, E(0));
      if (side.in == KeySide::In::dense_copy) store(side, keys, rows, E(1));
    }
    const Operand& bias = call_.targets.bias;
    if (!bias.data || bias.dim_stride == 0 || !entry_.first[kOfBias]) return;
    for (int64_t i = 0; i < (bias.row_stride == 0 ? 1 : p_.q_len); ++i) {
      auto* row =
          reinterpret_cast<E*>(tiles_.tiles().query_row(bias, i)) + keys.start * bias.dim_stride;
      for (int64_t j = 0; j < keys.count; ++j) row[j * bias.dim_stride] = 0;
    }
  }
  // Stores the sums that end with this head.
  void end_chunk(int64_t chunk) noexcept {
    if (!has_key_sums()) return;
    const Positions keys = parts_.chunk(chunk);
    for (const KeySide& side : {key_side(), value_side()}) {
      if (side.in == KeySide::In::nowhere || !entry_.last[side.of]) continue;
      if (side.in == KeySide::In::dense_copy) load_dense(side, keys);
      const SumRows rows = rows_of(side, keys);
      if (side.of == kOfKey)
        tiles_.store_keys(keys, rows.data, rows.stride);
      else
        store(side, keys, rows, static_cast<E>(p_.kept_factor()));
    }
  }

  const BackwardCall<E>& call_;
  const Problem& p_;
  const BackwardPlan& plan_;
  const WantedGradients& wanted_;
  const BackwardLayout<E>& layout_;
  const SumPlaces<E>& sums_;
  GradientTiles<E> tiles_;
  std::byte* memory_;  // of the component at work
  ComponentHead entry_ = {};
  int64_t head_ = 0, first_cell_ = 0;
  Parts parts_ = {1, 0, 0, 1};
};

}  // namespace rapt
