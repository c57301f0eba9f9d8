#pragma once
// The arithmetic of tangents on one worker: a unit of queries against blocks of keys. Formulas:
// rapt/tangents.h.
#include <new>

#include "attention/score_tiles.h"
#include "attention/tangents.h"

namespace rapt {

template <class E>
class TangentTiles {
 public:
  TangentTiles(const TangentCall<E>& call, const CancelToken* cancel, int worker)
      : call_(call),
        p_(call.problem()),
        in_(call.inputs),
        layout_(call.layout),
        tiling_(call.plan.tiling),
        kernels_(call.scores.kernels),
        gradients_(kernels_.table.gradients),
        keep_(kernels_.table.dropout.keep),
        tiles_(call.scores, cancel, worker),
        unit_queries_(std::min(tiling_.unit_queries, call.plan.longest_query)),
        widest_tile_(std::min<int64_t>(unit_queries_, tiling_.max_vectors * tiling_.lanes)),
        kept_factor_(static_cast<E>(p_.kept_factor())) {}

  void begin_head(int64_t head, int64_t sequence) noexcept { tiles_.begin_head(head, sequence); }
  bool stopped() const noexcept { return tiles_.stopped(); }
  const Sequence& sequence() const noexcept { return tiles_.sequence(); }
  const ScoreTiles<E>& tiles() const noexcept { return tiles_; }
  int64_t unit_queries() const noexcept { return unit_queries_; }

  // Forward mode: output and statistic of a unit.
  void move_results(Positions unit) noexcept {
    begin_unit(unit, all_keys());
    pack_queries();
    E* const output_t = scratch<E>(layout_.output_t);
    std::fill_n(output_t, unit_queries_ * p_.value_dim, E(0));
    std::fill_n(number(kLseTangent), unit_queries_, E(0));
    walk_keys([&](QueryTile<E>& tile, Positions keys, const Arrays& a) {
      make_weights(tile, keys, a);
      if (const uint64_t* const kept = kept_of(tile))
        for (E* const weights : {a.scores, a.tangents})
          keep_(weights, kept, keys.count, tile.queries, kept_factor_);
      E* const sums = output_t + tile.offset * p_.value_dim;
      add_rows(tile, keys, a, a.tangents, kValue, sums);
      if (in_.value.data) add_rows(tile, keys, a, a.scores, kValueTangent, sums);
    });
    for_each_tile([&](const QueryTile<E>& tile) {
      store_results(tile, output_t + tile.offset * p_.value_dim);
    });
  }

  // Second derivatives: what a unit's other walks need to know of all keys. To each
  // [unit queries].
  void make_numbers(Positions unit, E* lse_tangents, E* deltas, E* delta_tangents) noexcept {
    begin_unit(unit, all_keys());
    pack_queries();
    pack_d_output();
    for (const RowNumber n : {kLseTangent, kDelta, kDeltaTangent})
      std::fill_n(number(n), unit_queries_, E(0));
    walk_keys([&](QueryTile<E>& tile, Positions keys, const Arrays& a) {
      multiply_values(tile, keys, a);
      make_weights(tile, keys, a);
      keep_allowed(tile, keys, a, {a.d_weights, a.d_weights_tangents});
      E* const sums = number(kDeltaTangent) + tile.offset;
      gradients_.add_dots(a.tangents, a.d_weights, keys.count, tile.queries, sums);
      gradients_.add_dots(a.scores, a.d_weights_tangents, keys.count, tile.queries, sums);
    });
    for_each_tile([&](const QueryTile<E>& tile) { finish_numbers(tile); });
    std::copy_n(number(kLseTangent), unit.count, lse_tangents);
    std::copy_n(number(kDelta), unit.count, deltas);
    std::copy_n(number(kDeltaTangent), unit.count, delta_tangents);
  }

  // Turns to a unit whose numbers are made; false: it sees none of these keys.
  bool begin_unit_of(Positions unit, KeyRange keys, const E* lse_tangents, const E* deltas,
                     const E* delta_tangents) noexcept {
    if (!begin_unit(unit, keys)) return false;
    pack_queries();
    pack_d_output();
    const auto load = [&](const E* from, RowNumber n) {
      std::fill(std::copy_n(from, unit.count, number(n)), number(n) + unit_queries_, E(0));
    };
    load(lse_tangents, kLseTangent);
    load(deltas, kDelta);
    load(delta_tangents, kDeltaTangent);
    return true;
  }
  KeyRange all_keys() const noexcept { return {0, sequence().k_len}; }

  // Second derivatives, queries' side: sums [2] tiles [head_dim][queries] get, added, dZ' K + dZ K'
  // and dZ K.
  void add_to_queries(E* sums) noexcept {
    walk_keys([&](QueryTile<E>& tile, Positions keys, const Arrays& a) {
      make_gradients(tile, keys, a, nullptr);
      E* const moved = sums + tile.offset * p_.head_dim;
      add_rows(tile, keys, a, a.d_weights_tangents, kKey, moved);
      if (in_.key.data) add_rows(tile, keys, a, a.d_weights, kKeyTangent, moved);
      if (needs_still_sums())
        add_rows(tile, keys, a, a.d_weights, kKey, moved + unit_queries_ * p_.head_dim);
    });
  }
  bool needs_still_sums() const noexcept { return in_.scale != 0 || call_.wanted.scale; }
  // d_query' of a unit from these sums, which are lost; returns what it adds to the scale's.
  double store_queries(Positions unit, E* sums) noexcept {
    begin_unit(unit, all_keys());
    double dots = 0;
    for_each_tile([&](const QueryTile<E>& tile) {
      E* const moved = sums + tile.offset * p_.head_dim;
      const E* const still = moved + unit_queries_ * p_.head_dim;
      if (call_.wanted.scale) {
        dots += dots_with(p_.query, tile, moved);
        if (in_.query.data) dots += dots_with(in_.query, tile, still);
      }
      const auto scale = static_cast<E>(p_.scale), d_scale = static_cast<E>(in_.scale);
      for (int64_t x = 0; x < p_.head_dim * tile.queries; ++x) {
        moved[x] *= scale;
        if (d_scale != 0) moved[x] += d_scale * still[x];
      }
      if (call_.targets.query.data) store_rows(moved, p_.head_dim, tile, call_.targets.query);
    });
    return dots;
  }

  // Keys for add_to_keys(): at most a part of them, from a multiple of the block.
  void load_keys(Positions keys) noexcept {
    loaded_ = keys;
    pack_pairs(p_.key, in_.key, p_.head_dim, scratch<E>(layout_.keys));
    pack_pairs(p_.value, in_.value, p_.value_dim, scratch<E>(layout_.values));
    for (auto& blocks : finite_) std::fill(std::begin(blocks), std::end(blocks), Finite::unknown);
  }

  // Where the sums of the loaded keys are kept.
  struct KeySums {
    E *d_key, *d_value;     // [loaded][dims]
    double *bias, *scores;  // of the part
  };

  // Second derivatives, keys' side: what the unit adds to the loaded keys. Without the scale: it is
  // in the queries' rows; and dropout's factor waits for the end.
  void add_to_keys(const KeySums& sums) noexcept {
    Finite queries_finite = Finite::unknown, d_output_finite = Finite::unknown;
    for_each_block([&](Positions keys) {
      Spans values, scores;
      bool partial = false;
      for (int64_t i = 0; i < tile_count_; ++i) {
        QueryTile<E>& tile = tile_at(i);
        const Arrays a = arrays_of(i);
        if (!make_scores(tile, keys, a)) continue;
        make_gradients(tile, keys, a, &sums);
        const uint64_t* const allowed = tiles_.partial() ? a.bits : nullptr;
        partial |= allowed != nullptr;
        values.add(tile, a.tangents, rows(layout_.d_output_rows, p_.value_dim, tile), allowed);
        if (in_.d_output.data)
          values.add(tile, a.scores, rows(layout_.d_output_tangents, p_.value_dim, tile), allowed);
        scores.add(tile, a.d_weights_tangents, rows(layout_.query_rows, p_.head_dim, tile),
                   allowed);
        if (in_.moves_query())
          scores.add(tile, a.d_weights, rows(layout_.query_tangents, p_.head_dim, tile), allowed);
      }
      const int64_t at = keys.start - loaded_.start;
      if (call_.wanted.value)
        values.add_to(gradients_, keys, sums.d_value + at * p_.value_dim,
                      partial && !unit_finite(d_output_finite, layout_.d_output_rows,
                                              in_.d_output.data ? layout_.d_output_tangents : 0,
                                              p_.value_dim));
      if (call_.wanted.key)
        scores.add_to(
            gradients_, keys, sums.d_key + at * p_.head_dim,
            partial && !unit_finite(queries_finite, layout_.query_rows,
                                    in_.moves_query() ? layout_.query_tangents : 0, p_.head_dim));
    });
  }

  template <class T>
  T* scratch(size_t offset) const noexcept {
    return tiles_.template scratch<T>(offset);
  }

 private:
  // Rows [unit queries] of numbers.
  enum RowNumber : uint8_t { kLse, kLseTangent, kDelta, kDeltaTangent };
  // Matrices of the loaded keys.
  enum KeyRows : uint8_t { kKey, kKeyTangent, kValue, kValueTangent, kKeyRows };

  // Of a tile and a block, each [keys][queries]. In the words of the formulas: scores S, then P;
  // tangents S', then P'; d_weights dP, dS, dZ; d_weights_tangents dP', dS', dZ'.
  struct Arrays {
    E *scores, *tangents, *d_weights, *d_weights_tangents;
    uint64_t* bits;  // [keys] allowed pairs
  };

  struct Rows {
    const E* data;
    int64_t dims;
  };
  // Products that are summed together: of all tiles of a unit, of weights and of their tangents.
  struct Spans {
    static constexpr int kMost = 2 * 16;  // tiles of a unit, of one vector of 4 lanes or more
    GradientSpan<E> span[kMost];
    int64_t count = 0, dims = 0;

    void add(const QueryTile<E>& tile, const E* weights, Rows rows, const uint64_t* bits) noexcept {
      dims = rows.dims;
      span[count++] = {weights, tile.queries, rows.data, dims, tile.positions.count, bits};
    }
    void add_to(const GradientKernels<E>& kernels, Positions keys, E* sums,
                bool slow) const noexcept {
      if (count > 0)
        (slow ? kernels.add_to_keys_of_bits : kernels.add_to_keys)(span, count, keys.count, dims,
                                                                   sums, dims);
    }
  };

  QueryTile<E>& tile_at(int64_t i) const noexcept {
    return scratch<QueryTile<E>>(layout_.tiles)[i];
  }
  template <class Visit>
  void for_each_tile(const Visit& visit) noexcept {
    for (int64_t i = 0; i < tile_count_; ++i) visit(tile_at(i));
  }
  Arrays arrays_of(int64_t i) const noexcept {
    const int64_t at = i * tiling_.block_keys * widest_tile_;
    return {scratch<E>(layout_.scores) + at, scratch<E>(layout_.tangents) + at,
            scratch<E>(layout_.d_weights) + at, scratch<E>(layout_.d_weights_tangents) + at,
            scratch<uint64_t>(layout_.bits) + i * tiling_.block_keys};
  }
  E* number(RowNumber n) const noexcept { return scratch<E>(layout_.numbers) + n * unit_queries_; }
  E* query_pair_t(const QueryTile<E>& tile) const noexcept {
    return scratch<E>(layout_.query_t) + 2 * tile.offset * p_.head_dim;
  }
  E* d_output_pair_t(const QueryTile<E>& tile) const noexcept {
    return scratch<E>(layout_.d_output_t) + 2 * tile.offset * p_.value_dim;
  }
  // A tile's rows of a unit's.
  Rows rows(size_t unit_rows, int64_t dims, const QueryTile<E>& tile) const noexcept {
    return {scratch<E>(unit_rows) + tile.offset * dims, dims};
  }

  // Cuts a unit into tiles; false: it sees none of these keys.
  bool begin_unit(Positions unit, KeyRange keys) noexcept {
    unit_ = unit;
    range_ = {sequence().k_len, 0};
    const Tiling::Cut cut = tiling_.cut(unit.count);
    tile_count_ = cut.tiles;
    for (int64_t i = 0, offset = 0; i < cut.tiles; ++i) {
      QueryTile<E>& tile = *new (&tile_at(i)) QueryTile<E>;
      const int vectors = cut.vectors_of(i);
      const int64_t rows = std::min<int64_t>(vectors * tiling_.lanes, unit.count - offset);
      tiles_.place_tile(tile, unit.part(offset, offset + rows), vectors, offset);
      tile.query_t = query_pair_t(tile) + p_.head_dim * tile.queries;
      offset += tile.queries;
      if (tile.range.begin < tile.range.end)
        range_ = {std::min(range_.begin, tile.range.begin), std::max(range_.end, tile.range.end)};
    }
    return std::max(range_.begin, keys.begin) < std::min(range_.end, keys.end);
  }

  // Rows of the unit as dense rows of E.
  void pack_rows(const Operand& from, int64_t dims, E* to) noexcept {
    kernels_.table.fma[static_cast<int>(from.dtype)]->pack_keys(tiles_.query_row(from, unit_.start),
                                                                from.row_stride, from.dim_stride,
                                                                unit_.count, dims, to);
  }
  // Rows of a tile, transposed: [dims][queries].
  void pack_t(const Operand& from, const QueryTile<E>& tile, int64_t dims, E* to) noexcept {
    kernels_.table.fma[static_cast<int>(from.dtype)]->pack_queries(
        tiles_.query_row(from, tile.positions.start), from.row_stride, from.dim_stride,
        tile.positions.count, dims, E(1), tile.queries, to);
  }
  void pack_t(Rows from, const QueryTile<E>& tile, E* to) noexcept {
    kernels_.table.fma[static_cast<int>(p_.result_dtype)]->pack_queries(
        from.data, from.dims, 1, tile.positions.count, from.dims, E(1), tile.queries, to);
  }

  // scale Q and scale Q' + scale' Q, as rows and transposed; lse.
  void pack_queries() noexcept {
    const int64_t count = unit_.count * p_.head_dim;
    E* const query = scratch<E>(layout_.query_rows);
    E* const moved = scratch<E>(layout_.query_tangents);
    const auto scale = static_cast<E>(p_.scale), d_scale = static_cast<E>(in_.scale);
    pack_rows(p_.query, p_.head_dim, query);
    if (in_.query.data) {
      pack_rows(in_.query, p_.head_dim, moved);
      for (int64_t x = 0; x < count; ++x) moved[x] *= scale;
    } else if (in_.moves_query()) {
      std::fill_n(moved, count, E(0));
    }
    if (d_scale != 0)
      for (int64_t x = 0; x < count; ++x) moved[x] += d_scale * query[x];
    for (int64_t x = 0; x < count; ++x) query[x] *= scale;
    for_each_tile([&](const QueryTile<E>& tile) {
      E* const pair_t = query_pair_t(tile);
      if (in_.moves_query()) pack_t(rows(layout_.query_tangents, p_.head_dim, tile), tile, pair_t);
      pack_t(rows(layout_.query_rows, p_.head_dim, tile), tile,
             pair_t + p_.head_dim * tile.queries);
      read_column(call_.inputs.primal.statistic, tile, -E(__builtin_inf()),
                  number(kLse) + tile.offset);
    });
  }
  void pack_d_output() noexcept {
    pack_rows(in_.primal.d_output, p_.value_dim, scratch<E>(layout_.d_output_rows));
    if (in_.d_output.data)
      pack_rows(in_.d_output, p_.value_dim, scratch<E>(layout_.d_output_tangents));
    for_each_tile([&](const QueryTile<E>& tile) {
      E* const pair_t = d_output_pair_t(tile);
      if (in_.d_output.data)
        pack_t(rows(layout_.d_output_tangents, p_.value_dim, tile), tile, pair_t);
      pack_t(rows(layout_.d_output_rows, p_.value_dim, tile), tile,
             pair_t + p_.value_dim * tile.queries);
    });
  }
  // One number per query; `beyond` for the lanes after the last.
  void read_column(const Operand& from, const QueryTile<E>& tile, E beyond, E* to) noexcept {
    for (int64_t i = 0; i < tile.queries; ++i)
      to[i] = i < tile.positions.count
                  ? *reinterpret_cast<const E*>(tiles_.query_row(from, tile.positions.start + i))
                  : beyond;
  }

  // Rows of the loaded keys and their tangents side by side.
  void pack_pairs(const Operand& primal, const Operand& tangent, int64_t dims, E* to) noexcept {
    for (int64_t j = 0; j < loaded_.count; ++j, to += 2 * dims) {
      const auto pack = [&](const Operand& o, E* row) {
        kernels_.table.fma[static_cast<int>(o.dtype)]->pack_keys(
            tiles_.key_row(o, loaded_[j]), o.row_stride, o.dim_stride, 1, dims, row);
      };
      pack(primal, to);
      if (tangent.data) pack(tangent, to + dims);
    }
  }
  int64_t dims_of(KeyRows which) const noexcept {
    return which == kKey || which == kKeyTangent ? p_.head_dim : p_.value_dim;
  }
  // Rows of loaded keys, from this position; 2 dims apart.
  const E* key_rows(KeyRows which, int64_t position) const noexcept {
    const int64_t dims = dims_of(which), at = 2 * (position - loaded_.start) * dims;
    switch (which) {
      case kKey:
        return scratch<E>(layout_.keys) + at;
      case kKeyTangent:
        return scratch<E>(layout_.keys) + at + dims;
      case kValue:
        return scratch<E>(layout_.values) + at;
      default:
        return scratch<E>(layout_.values) + at + dims;
    }
  }
  bool keys_finite(KeyRows which, Positions keys) noexcept {
    const int64_t block = (keys.start - loaded_.start) / tiling_.block_keys;
    Finite& known = finite_[which][block];
    if (known == Finite::unknown) {
      const int64_t begin = block * tiling_.block_keys;
      const int64_t count = std::min(tiling_.block_keys, loaded_.count - begin);
      known = kernels_.route.all_finite(key_rows(which, loaded_.start + begin), 2 * dims_of(which),
                                        count, dims_of(which))
                  ? Finite::yes
                  : Finite::no;
    }
    return known == Finite::yes;
  }
  // Are all these rows of the unit, and their tangents (0: there are none)?
  bool unit_finite(Finite& known, size_t primal, size_t tangent, int64_t dims) const noexcept {
    const auto finite = [&](size_t at) {
      return kernels_.route.all_finite(scratch<E>(at), dims, unit_.count, dims);
    };
    if (known == Finite::unknown)
      known = finite(primal) && (tangent == 0 || finite(tangent)) ? Finite::yes : Finite::no;
    return known == Finite::yes;
  }

  // Calls visit(tile, keys, arrays) with scores and their tangents of all blocks that the unit
  // sees.
  template <class Visit>
  void walk_keys(const Visit& visit) noexcept {
    const int64_t part = key_part(call_.plan);
    for (int64_t at = range_.begin / part * part; at < range_.end && !stopped(); at += part) {
      load_keys({at, 1, std::min(part, sequence().k_len - at)});
      for_each_block([&](Positions keys) {
        for (int64_t i = 0; i < tile_count_; ++i)
          if (const Arrays a = arrays_of(i); make_scores(tile_at(i), keys, a))
            visit(tile_at(i), keys, a);
      });
    }
  }
  // Calls visit(keys) for the blocks of the loaded keys, as far as the unit sees them.
  template <class Visit>
  void for_each_block(const Visit& visit) noexcept {
    const int64_t end = loaded_.start + loaded_.count, length = tiling_.block_keys;
    for (int64_t at = loaded_.start; at < end; at += length) {
      const int64_t first = std::max(at, range_.begin);
      const int64_t last = std::min({at + length, end, range_.end});
      if (first < last) visit(Positions{first, 1, last - first});
    }
  }

  // out = A' B^T + A B'^T for a pair A', A of a tile and one B, B' of keys; 0 for what is absent.
  void multiply_pairs(const QueryTile<E>& tile, Positions keys, const E* pair_t, bool first,
                      KeyRows primal, bool second, E* out) noexcept {
    const int64_t dims = dims_of(primal), skipped = first ? 0 : dims;
    const int64_t count = (first + second) * dims;
    if (count == 0) {
      std::fill_n(out, keys.count * tile.queries, E(0));
      return;
    }
    kernels_.route.products[tile.vectors - 1].scores(
        pair_t + skipped * tile.queries, key_rows(primal, keys.start) + skipped, 2 * dims,
        keys.count, count, E(1), out, tiles_.row(0));
  }

  // S and S' of a tile; false: it sees none of the keys. Excluded pairs have both, too.
  bool make_scores(QueryTile<E>& tile, Positions keys, const Arrays& a) noexcept {
    if (tile.range.begin >= keys.start + keys.count || tile.range.end <= keys.start) return false;
    if (tiles_.see(tile, keys, a.bits) == Cover::none) return false;
    KeyBlock block;
    block.begin = keys.start, block.end = keys.start + keys.count;
    block.key = reinterpret_cast<const std::byte*>(key_rows(kKey, keys.start));
    block.key_stride = 2 * p_.head_dim;
    const auto& scores = call_.scores.scores;
    const int64_t count = keys.count * tile.queries;
    E* const before = scores.empty() ? nullptr : scratch<E>(layout_.before);
    tiles_.compute_scores(tile, block, keys, a.scores, before);
    multiply_pairs(tile, keys, query_pair_t(tile), in_.moves_query(), kKey, in_.key.data,
                   a.tangents);

    E* before_tangents = scratch<E>(layout_.before_tangents);
    Tile<E> tangents = tile.hooks;
    tangents.scores = a.tangents;
    const double* parameters = in_.score_parameters.data();
    for (size_t s = 0; s < scores.size(); ++s) {
      const ScoreKernels<E>& kernel = kernels_.table.scores[scores[s].index];
      before_tangents = std::copy_n(a.tangents, count, before_tangents);
      kernel.tangent(scores[s].object, before + static_cast<int64_t>(s) * count, tangents,
                     parameters);
      parameters += kernel.real_parameters;
    }
    if (in_.bias.data)  // its tangent excludes nobody
      kernels_.table.add_bias[static_cast<int>(in_.bias.dtype)](
          a.tangents,
          tiles_.query_row(in_.bias, tile.positions.start) +
              keys.start * in_.bias.dim_stride * size_of(in_.bias.dtype),
          nullptr, in_.bias.row_stride, in_.bias.dim_stride, keys.count, tile.positions.count,
          tile.queries, scratch<uint64_t>(layout_.other_bits), tiles_.row(0));
    return true;
  }

  // Excluded pairs become 0, be they NaN.
  void keep_allowed(const QueryTile<E>& tile, Positions keys, const Arrays& a,
                    std::initializer_list<E*> arrays) noexcept {
    if (!tiles_.partial()) return;
    for (E* const array : arrays) keep_(array, a.bits, keys.count, tile.queries, E(1));
  }
  const uint64_t* kept_of(const QueryTile<E>& tile) const noexcept {
    return p_.drop_below > 0 ? tiles_.kept(tile) : nullptr;
  }

  // S, S' -> P, P o S', whose sum over the keys is lse'.
  void make_weights(QueryTile<E>& tile, Positions keys, const Arrays& a) noexcept {
    kernels_.normalizer.tangent(call_.scores.normalizer_object, tile.hooks, a.tangents,
                                number(kLse) + tile.offset);
    keep_allowed(tile, keys, a, {a.scores, a.tangents});
    gradients_.add_sums(a.tangents, keys.count, tile.queries, number(kLseTangent) + tile.offset);
  }

  // dP and dP'; returns the pairs that dropout keeps, null for all.
  const uint64_t* multiply_values(const QueryTile<E>& tile, Positions keys,
                                  const Arrays& a) noexcept {
    const E* const pair_t = d_output_pair_t(tile);
    kernels_.route.products[tile.vectors - 1].scores(
        pair_t + p_.value_dim * tile.queries, key_rows(kValue, keys.start), 2 * p_.value_dim,
        keys.count, p_.value_dim, E(1), a.d_weights, tiles_.row(0));
    multiply_pairs(tile, keys, pair_t, in_.d_output.data, kValue, in_.value.data,
                   a.d_weights_tangents);
    const uint64_t* const kept = kept_of(tile);
    if (kept)
      for (E* const array : {a.d_weights, a.d_weights_tangents})
        keep_(array, kept, keys.count, tile.queries, kept_factor_);
    return kept;
  }

  // P, P', dZ, dZ' from S and S'. With `sums`: what is summed per key; else per query.
  void make_gradients(QueryTile<E>& tile, Positions keys, const Arrays& a,
                      const KeySums* sums) noexcept {
    const uint64_t* const kept = multiply_values(tile, keys, a);
    kernels_.normalizer.backward_tangent(
        call_.scores.normalizer_object, tile.hooks,
        {a.d_weights, a.tangents, a.d_weights_tangents, number(kLse) + tile.offset,
         number(kDelta) + tile.offset, number(kLseTangent) + tile.offset,
         number(kDeltaTangent) + tile.offset});
    keep_allowed(tile, keys, a, {a.scores, a.tangents, a.d_weights, a.d_weights_tangents});
    if (kept)
      for (E* const weights : {a.scores, a.tangents})
        keep_(weights, kept, keys.count, tile.queries, E(1));
    if (call_.wanted.bias) add_bias(tile, keys, a, sums);
    undo_scores(tile, keys, a, sums);
  }

  void add_bias(const QueryTile<E>& tile, Positions keys, const Arrays& a,
                const KeySums* sums) noexcept {
    const Operand& out = call_.targets.bias;
    if (!out.data) return;
    if (out.row_stride == 0 && out.dim_stride == 0) {
      if (sums)
        *sums->bias += gradients_.sum_of_tile(a.d_weights_tangents, keys.count * tile.queries);
      return;
    }
    // One column for all keys: the queries' side alone adds to it.
    if ((out.dim_stride == 0) == (sums != nullptr)) return;
    auto* const bias = reinterpret_cast<E*>(tiles_.query_row(out, tile.positions.start)) +
                       keys.start * out.dim_stride;
    gradients_.add_bias_gradient(a.d_weights_tangents, keys.count, tile.queries,
                                 tile.positions.count, bias, out.row_stride, out.dim_stride);
  }

  // The scores of the call, last first.
  void undo_scores(const QueryTile<E>& tile, Positions keys, const Arrays& a,
                   const KeySums* sums) noexcept {
    const auto& scores = call_.scores.scores;
    auto parameter = static_cast<int64_t>(in_.score_parameters.size());
    Tile<E> gradients = tile.hooks;
    gradients.scores = a.d_weights;
    E* const lanes = scratch<E>(layout_.parameter_sums);
    for (size_t s = scores.size(); s-- > 0;) {
      const ScoreKernels<E>& kernel = kernels_.table.scores[scores[s].index];
      const int64_t at = static_cast<int64_t>(s) * keys.count * tile.queries;
      parameter -= kernel.real_parameters;
      std::fill_n(lanes, kernel.real_parameters * tile.queries, E(0));
      kernel.backward_tangent(scores[s].object, scratch<E>(layout_.before) + at,
                              scratch<E>(layout_.before_tangents) + at, gradients,
                              a.d_weights_tangents, in_.score_parameters.data() + parameter, lanes);
      if (!call_.wanted.scores || !sums) continue;
      for (int r = 0; r < kernel.real_parameters; ++r)
        sums->scores[parameter + r] +=
            gradients_.sum_of_tile(lanes + r * tile.queries, tile.queries);
    }
  }

  // sums [dims][queries] += rows^T weights.
  void add_rows(const QueryTile<E>& tile, Positions keys, const Arrays& a, const E* weights,
                KeyRows which, E* sums) noexcept {
    const E* const rows = key_rows(which, keys.start);
    const int64_t dims = dims_of(which);
    // 0 * NaN is NaN: see Forward::add_values().
    if (tiles_.partial() && !keys_finite(which, keys))
      kernels_.route.output_of_bits(weights, a.bits, rows, 2 * dims, keys.count, dims, nullptr,
                                    tile.queries, sums);
    else
      kernels_.route.products[tile.vectors - 1].output(weights, rows, 2 * dims, keys.count, dims,
                                                       nullptr, sums);
  }

  void store_rows(const E* rows_t, int64_t dims, const QueryTile<E>& tile,
                  const Operand& out) noexcept {
    kernels_.table.store_rows[static_cast<int>(out.dtype)](
        rows_t, dims, tile.queries, nullptr, ~uint64_t{0}, tile.positions.count,
        tiles_.query_row(out, tile.positions.start), out.row_stride, out.dim_stride);
  }

  // O' = sums - lse' O, and lse'.
  void store_results(const QueryTile<E>& tile, E* sums) noexcept {
    const E* const lse_tangent = number(kLseTangent) + tile.offset;
    if (call_.state.output.data) {
      E* const output_t = scratch<E>(layout_.rows_t);
      pack_t(in_.primal.output, tile, p_.value_dim, output_t);
      for (int64_t c = 0; c < p_.value_dim; ++c)
        for (int64_t i = 0; i < tile.queries; ++i)
          sums[c * tile.queries + i] -= lse_tangent[i] * output_t[c * tile.queries + i];
      store_rows(sums, p_.value_dim, tile, call_.state.output);
    }
    store_rows(lse_tangent, 1, tile, call_.state.statistic);
  }

  // delta = rowsum(dO o O) - dlse, and from the sums of P o S' o dP + P o dP' its tangent.
  void finish_numbers(const QueryTile<E>& tile) noexcept {
    E* const delta = number(kDelta) + tile.offset;
    E* const delta_tangent = number(kDeltaTangent) + tile.offset;
    const E* const lse_tangent = number(kLseTangent) + tile.offset;
    if (p_.value_dim > 0) {
      E* const output_t = scratch<E>(layout_.rows_t);
      pack_t(in_.primal.output, tile, p_.value_dim, output_t);
      gradients_.add_dots(d_output_pair_t(tile) + p_.value_dim * tile.queries, output_t,
                          p_.value_dim, tile.queries, delta);
    }
    for (int64_t i = 0; i < tile.queries; ++i) delta_tangent[i] -= lse_tangent[i] * delta[i];
    const auto subtract = [&](const Operand& from, E* numbers) {
      if (!from.data) return;
      E* const column = tiles_.row(2);
      read_column(from, tile, E(0), column);
      for (int64_t i = 0; i < tile.queries; ++i) numbers[i] -= column[i];
    };
    subtract(in_.primal.d_statistic, delta);
    subtract(in_.d_statistic, delta_tangent);
  }

  // The sum over the tile's queries of rows . sums. What is 0 adds nothing, be the row's number
  // NaN: its query may see no key.
  double dots_with(const Operand& from, const QueryTile<E>& tile, const E* sums) noexcept {
    E* const rows_t = scratch<E>(layout_.rows_t);
    pack_t(from, tile, p_.head_dim, rows_t);
    double sum = 0;
    for (int64_t d = 0; d < p_.head_dim; ++d)
      for (int64_t i = 0; i < tile.positions.count; ++i)
        if (const int64_t x = d * tile.queries + i; sums[x] != 0)
          sum += static_cast<double>(sums[x]) * static_cast<double>(rows_t[x]);
    return sum;
  }

  const TangentCall<E>& call_;
  const Problem& p_;
  const TangentInputs& in_;
  const TangentLayout& layout_;
  const Tiling& tiling_;
  const Kernels<E>& kernels_;
  const GradientKernels<E>& gradients_;
  decltype(DropoutKernels<E>::keep) keep_;
  ScoreTiles<E> tiles_;
  int64_t unit_queries_;  // of a unit, padded, at most
  int64_t widest_tile_;
  E kept_factor_;  // of dropout
  Positions unit_ = {0, 1, 0}, loaded_ = {0, 1, 0};
  int64_t tile_count_ = 0;
  KeyRange range_ = {0, 0};  // no key outside is visible to the unit
  Finite finite_[kKeyRows][kBlocksOfPart];
};

}  // namespace rapt
