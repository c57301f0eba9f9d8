#pragma once
// The work of one worker on one head of a component: on a segment, a chunk or a cell, and where the
// sums are kept. Order of sums: backward_plan.h. The code is in the header because it is a template
// over E.
#include <algorithm>

#include "attention/backward/gradient_tiles.h"

namespace rapt {

template <class E>
class BackwardWorker {
 public:
  BackwardWorker(const BackwardCall<E>& call, const CancelToken* cancel, int worker, int64_t slot)
      : call_(call),
        p_(call.problem()),
        plan_(call.plan),
        wanted_(call.wanted),
        layout_(call.layout),
        tiles_(call, cancel, worker),
        arrays_(wanted_.two_passes
                    ? tiles_.template scratch<std::byte>(0)
                    : call.template at<std::byte>(layout_.slots + static_cast<size_t>(slot) *
                                                                      layout_.slot_bytes)) {}

  bool stopped() const noexcept { return tiles_.stopped(); }
  const Parts& parts() const noexcept { return parts_; }

  void begin_head(int64_t component, int64_t sequence, int64_t nth) noexcept {
    entry_ = call_.template at<ComponentHead>(layout_.heads)[nth];
    head_ = first_head(p_, plan_, component) + entry_.head;
    tiles_.begin_head(head_, sequence);
    const Sequence& s = tiles_.sequence();
    parts_ = parts_of(plan_.tiling, s.q_len, s.k_len);
    first_cell_ = head_ * plan_.cells_per_head + call_.first_cell(sequence);
  }

  // One pass, before the first step: packs the queries of a part and clears its sums.
  void prepare(int64_t part) noexcept {
    begin_chunk(part);
    clear_bias_rows(part);
    for_each_unit(part, [&](Positions unit) {
      tiles_.pack_unit(unit, unit_arrays(unit.start), true, normalizer_sums(part));
      if (has_query_sums() && entry_.first[kOfQuery]) clear_queries(unit, query_sums(unit));
    });
  }

  // One pass: computes a cell.
  void step(int64_t chunk, int64_t segment) noexcept {
    const Sides sides{has_query_sums() || wanted_.bias, has_key_sums()};
    walk_cell(chunk, segment, sides, [&](Positions unit) {
      QueryUnit<E> query_unit = tiles_.begin_unit(
          unit, unit_arrays(unit.start), has_query_sums() ? query_sums(unit) : nullptr, sides);
      if (layout_.query_bias_sums)
        query_unit.query_bias_sums = call_.template at<double>(layout_.query_bias_sums) +
                                     (first_cell_ + segment) * 2 * p_.head_dim;
      query_unit.query_dots = query_dots(unit);
      query_unit.d_query_pairs = query_pairs(unit);
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
        call_.template at<double>(layout_.scale_sums)[first_cell_ + slice] +=
            tiles_.dots_with_query_rows(windows.query, first, last);
      add_window(windows.value, first, last, static_cast<E>(p_.kept_factor()),
                 call_.targets.value_rows);
    }
  }

  // One pass, after the last step: stores the results of a part.
  void finish(int64_t part) noexcept {
    end_chunk(part);
    if (has_query_sums() && entry_.last[kOfQuery])
      for_each_unit(part, [&](Positions unit) { store_queries(part, unit, query_sums(unit)); });
  }

  // Two passes, first of all: computes delta of a segment.
  void make_deltas(int64_t segment) noexcept {
    for_each_unit(segment,
                  [&](Positions unit) { pack_unit_arrays(unit, normalizer_sums(segment), true); });
  }

  // Two passes, keys' side: computes a chunk over all segments.
  void run_chunk(int64_t chunk) noexcept {
    begin_chunk(chunk);
    constexpr Sides kKeys{false, true};
    for (int64_t s = 0; s < parts_.count && !stopped(); ++s)
      walk_cell(chunk, (chunk + s) % parts_.count, kKeys, [&](Positions unit) {
        pack_unit_arrays(unit, nullptr, false);
        return begin_packed_unit(unit, nullptr, kKeys);
      });
    end_chunk(chunk);
  }

  // Two passes, queries' side: computes a work unit of a segment over all chunks.
  void run_unit(int64_t segment, Positions unit) noexcept {
    constexpr Sides kQueries{true, false};
    E* const sums = has_query_sums() ? query_sums(unit) : nullptr;
    if (sums && entry_.first[kOfQuery]) clear_queries(unit, sums);
    pack_unit_arrays(unit, nullptr, false);
    for (int64_t s = 0; s < parts_.count && !stopped(); ++s) {
      const int64_t nth = (segment - s + parts_.count) % parts_.count;
      for_each_walk(parts_.chunk(nth), unit, kQueries, [&] {
        QueryUnit<E> query_unit = begin_packed_unit(unit, sums, kQueries);
        query_unit.query_dots = query_dots(unit);
        query_unit.d_query_pairs = query_pairs(unit);
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
        *reinterpret_cast<E*>(tiles_.query_row(bias, unit[i])) = 0;
    });
  }

 private:
  using KeySums = rapt::KeySums<E>;

  E* array(size_t offset) const noexcept { return reinterpret_cast<E*>(arrays_ + offset); }
  // The arrays of the queries from position `at` on.
  UnitArrays<E> unit_arrays(int64_t at) const noexcept {
    const size_t positions = p_.rows.adds_biases ? layout_.position_t : layout_.query_t;
    return {arrays_ + layout_.query_t + at * tiles_.query_bytes(),
            transformed_query(at),
            arrays_ + positions + at * tiles_.query_bytes(),
            arrays_ + layout_.position_query + at * tiles_.transformed_bytes(),
            kept_pairs(at),
            arrays_ + layout_.prefilter_queries + at * prefilter_query_bytes(p_.head_dim),
            arrays_ + layout_.d_output_t + at * tiles_.d_output_bytes(),
            array(layout_.statistic) + at,
            delta(at)};
  }
  KeptPairs<E> kept_pairs(int64_t at) const noexcept {
    if (!layout_.kept_pairs) return {};
    return {reinterpret_cast<SparsePair<E>*>(arrays_ + layout_.kept_pairs) + at * kKeptPairs,
            reinterpret_cast<int64_t*>(arrays_ + layout_.kept_counts) + at};
  }
  E* delta(int64_t at) const noexcept {
    return array(layout_.delta) + at * call_.forward.kernels.normalizer.delta_rows;
  }
  std::byte* transformed_query(int64_t at) const noexcept {
    return arrays_ + layout_.transformed_query + at * tiles_.transformed_bytes();
  }
  bool has_query_sums() const noexcept { return wanted_.query_sums(); }
  bool has_key_sums() const noexcept {
    return wanted_.key || wanted_.value || wanted_.bias || wanted_.score_parameters ||
           wanted_.tables();
  }

  // Sums of d_query of a work unit. In one pass the array holds all work units, in two passes one.
  E* query_sums(Positions unit) const noexcept {
    const int64_t queries = wanted_.two_passes
                                ? std::min(plan_.tiling.unit_queries, plan_.longest_query)
                                : plan_.longest_query;
    return array(layout_.d_query_t) +
           (entry_.slot[kOfQuery] * queries + (wanted_.two_passes ? 0 : unit.start)) * p_.head_dim;
  }
  // Sums of d_query . query of a work unit, for d_scale; null: not needed.
  E* query_dots(Positions unit) const noexcept {
    if (!layout_.query_dots) return nullptr;
    const int64_t sums = query_sums(unit) - array(layout_.d_query_t);
    return array(layout_.query_dots) + sums / p_.head_dim;
  }
  // Sums of d_query of a work unit that are added pair by pair; null: none.
  E* query_pairs(Positions unit) const noexcept {
    if (!layout_.d_query_pairs) return nullptr;
    return array(layout_.d_query_pairs) + (query_sums(unit) - array(layout_.d_query_t));
  }
  void clear_queries(Positions unit, E* sums) const noexcept {
    const int64_t padded = plan_.tiling.padded(unit.count);
    std::fill_n(sums, padded * p_.head_dim, E(0));
    if (E* const pairs = query_pairs(unit)) std::fill_n(pairs, padded * p_.head_dim, E(0));
    if (E* const dots = query_dots(unit)) std::fill_n(dots, padded, E(0));
  }
  void store_queries(int64_t segment, Positions unit, E* sums) noexcept {
    std::byte* const transformed = transformed_query(wanted_.two_passes ? 0 : unit.start);
    const double dots = tiles_.store_queries(unit, sums, query_pairs(unit), transformed,
                                             wanted_.scale, query_dots(unit));
    if (wanted_.scale) call_.template at<double>(layout_.scale_sums)[first_cell_ + segment] += dots;
  }

  double* normalizer_sums(int64_t part) const noexcept {
    if (!layout_.normalizer_sums) return nullptr;
    return call_.template at<double>(layout_.normalizer_sums) +
           (first_cell_ + part) * wanted_.normalizer_head_parameter_count;
  }

  // Two passes: packs the arrays of one work unit; computes and saves its delta, or loads it.
  void pack_unit_arrays(Positions unit, double* of_normalizer, bool with_delta) noexcept {
    E* const delta = array(layout_.delta);
    tiles_.pack_unit(unit, unit_arrays(0), with_delta, of_normalizer);
    const int rows = call_.forward.kernels.normalizer.delta_rows;
    E* const known = call_.template at<E>(layout_.deltas) + head_ * rows * p_.q_len +
                     tiles_.sequence().query_begin + unit.start;
    tiles_.for_each_tile(unit, [&](QueryTile<E>& tile, int64_t offset) {
      const int64_t count = tile.positions.count;
      for (int r = 0; r < rows; ++r) {
        E* const of_tile = delta + offset * rows + r * tile.queries;
        E* const saved = known + r * p_.q_len + offset;
        if (with_delta)
          std::copy_n(of_tile, count, saved);
        else
          std::fill_n(std::copy_n(saved, count, of_tile), tile.queries - count, E(0));
      }
    });
  }
  QueryUnit<E> begin_packed_unit(Positions unit, E* sums, Sides sides) noexcept {
    return tiles_.begin_unit(unit, unit_arrays(0), sums, sides);
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
    return tiles_.span_of(parts_.chunk(chunk), queries, plan_.tiling.padded(queries.count));
  }
  DistanceWindows<E> windows_of(int64_t chunk, const DistanceSpan& span) const noexcept {
    const auto window = [&](bool wanted, size_t windows, int64_t dims) {
      E* const data = wanted ? array(windows) + chunk * plan_.window_rows * dims : nullptr;
      return DistanceWindow<E>{data, span.low, dims};
    };
    return {window(wanted_.key_rows, layout_.key_windows, p_.head_dim),
            window(wanted_.query_rows_sums, layout_.query_windows, p_.head_dim),
            window(wanted_.value_rows, layout_.value_windows, p_.value_dim)};
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

  // Where the sums of d_key or d_value are made: in the result; in scratch, if the result is
  // narrower; in a dense copy while a cell is at work, if the result's rows are not dense.
  enum class Place : uint8_t { nowhere, target, scratch, dense_copy };
  Place place_of(bool wanted, const Operand& target) const noexcept {
    if (!wanted || !target.data) return Place::nowhere;
    if (target.dtype != p_.result_dtype) return Place::scratch;
    return target.dim_stride == 1 ? Place::target : Place::dense_copy;
  }
  struct SumRows {
    E* data;
    int64_t stride;
  };
  // The sums of the keys of a chunk.
  SumRows sums_of(GradientOf o, const Operand& target, int64_t dims, Positions keys, size_t sums,
                  size_t dense_scratch) const noexcept {
    switch (place_of(true, target)) {
      case Place::target:
        return {reinterpret_cast<E*>(tiles_.key_row(target, keys.start)), target.row_stride};
      case Place::scratch: {
        const int64_t most = wanted_.two_passes ? plan_.longest_chunk : plan_.longest_key;
        const int64_t at = entry_.slot[o] * most + (wanted_.two_passes ? 0 : keys.start);
        return {array(sums) + at * dims, dims};
      }
      default:
        return {tiles_.template scratch<E>(dense_scratch), dims};
    }
  }
  SumRows key_sums(Positions keys) const noexcept {
    return sums_of(kOfKey, call_.targets.key, p_.head_dim, keys, layout_.d_key,
                   layout_.dense_d_key);
  }
  SumRows value_sums(Positions keys) const noexcept {
    return sums_of(kOfValue, call_.targets.value, p_.value_dim, keys, layout_.d_value,
                   layout_.dense_d_value);
  }

  KeySums open_sums(int64_t chunk, Positions keys) noexcept {
    KeySums sums;
    sums.begin = keys.start;
    const auto open = [&](bool wanted, const Operand& target, int64_t dims, SumRows rows, E*& data,
                          int64_t& stride) {
      const Place place = place_of(wanted, target);
      if (place == Place::nowhere) return;
      data = rows.data, stride = rows.stride;
      if (place == Place::dense_copy)
        call_.forward.kernels.table.fma[static_cast<int>(target.dtype)]->pack_keys(
            tiles_.key_row(target, keys.start), target.row_stride, target.dim_stride, keys.count,
            dims, data);
    };
    open(wanted_.key, call_.targets.key, p_.head_dim, key_sums(keys), sums.d_key,
         sums.d_key_stride);
    open(wanted_.value, call_.targets.value, p_.value_dim, value_sums(keys), sums.d_value,
         sums.d_value_stride);
    if (layout_.bias_sums)
      sums.bias_sum = call_.template at<double>(layout_.bias_sums) + first_cell_ + chunk;
    if (layout_.score_sums)
      sums.score_sums = call_.template at<double>(layout_.score_sums) +
                        (first_cell_ + chunk) * wanted_.head_parameter_count;
    return sums;
  }
  void close_sums(Positions keys, const KeySums& sums) noexcept {
    if (place_of(wanted_.key, call_.targets.key) == Place::dense_copy)
      store(call_.targets.key, keys, sums.d_key, p_.head_dim, p_.head_dim, E(1));
    if (place_of(wanted_.value, call_.targets.value) == Place::dense_copy)
      store(call_.targets.value, keys, sums.d_value, p_.value_dim, p_.value_dim, E(1));
  }
  void store(const Operand& target, Positions keys, const E* from, int64_t stride, int64_t dims,
             E factor) noexcept {
    call_.forward.kernels.table.gradients.store_key_rows[static_cast<int>(target.dtype)](
        from, stride, keys.count, dims, factor, tiles_.key_row(target, keys.start),
        target.row_stride, target.dim_stride);
  }

  // Clears the sums that begin with this head.
  void begin_chunk(int64_t chunk) noexcept {
    const Positions keys = parts_.chunk(chunk);
    const auto clear = [&](bool wanted, GradientOf o, const Operand& target, SumRows rows,
                           int64_t dims) {
      const Place place = place_of(wanted, target);
      if (place == Place::nowhere || !entry_.first[o]) return;
      for (int64_t j = 0; j < keys.count; ++j) std::fill_n(rows.data + j * rows.stride, dims, E(0));
      if (place == Place::dense_copy) store(target, keys, rows.data, dims, dims, E(1));
    };
    clear(wanted_.key, kOfKey, call_.targets.key, key_sums(keys), p_.head_dim);
    clear(wanted_.value, kOfValue, call_.targets.value, value_sums(keys), p_.value_dim);
    const Operand& bias = call_.targets.bias;
    if (!bias.data || bias.dim_stride == 0 || !entry_.first[kOfBias]) return;
    for (int64_t i = 0; i < (bias.row_stride == 0 ? 1 : p_.q_len); ++i) {
      auto* row = reinterpret_cast<E*>(tiles_.query_row(bias, i)) + keys.start * bias.dim_stride;
      for (int64_t j = 0; j < keys.count; ++j) row[j * bias.dim_stride] = 0;
    }
  }
  // Stores the sums that end with this head.
  void end_chunk(int64_t chunk) noexcept {
    if (!has_key_sums()) return;
    const Positions keys = parts_.chunk(chunk);
    // Calls save(rows) for complete sums.
    const auto finish = [&](bool wanted, GradientOf o, const Operand& target, SumRows rows,
                            int64_t dims, size_t dense_scratch, const auto& save) {
      const Place place = place_of(wanted, target);
      if (place == Place::nowhere || !entry_.last[o]) return;
      if (place == Place::dense_copy)
        call_.forward.kernels.table.fma[static_cast<int>(target.dtype)]->pack_keys(
            tiles_.key_row(target, keys.start), target.row_stride, target.dim_stride, keys.count,
            dims, tiles_.template scratch<E>(dense_scratch));
      save(rows);
    };
    finish(wanted_.key, kOfKey, call_.targets.key, key_sums(keys), p_.head_dim, layout_.dense_d_key,
           [&](SumRows rows) { tiles_.store_keys(keys, rows.data, rows.stride); });
    finish(wanted_.value, kOfValue, call_.targets.value, value_sums(keys), p_.value_dim,
           layout_.dense_d_value, [&](SumRows rows) {
             store(call_.targets.value, keys, rows.data, rows.stride, p_.value_dim,
                   static_cast<E>(p_.kept_factor()));
           });
  }

  const BackwardCall<E>& call_;
  const Problem& p_;
  const BackwardPlan& plan_;
  const WantedGradients& wanted_;
  const BackwardLayout& layout_;
  GradientTiles<E> tiles_;
  std::byte* arrays_;  // of the component at work; in two passes, of the worker
  ComponentHead entry_ = {};
  int64_t head_ = 0, first_cell_ = 0;
  Parts parts_ = {1, 0, 0, 1};
};

}  // namespace rapt
