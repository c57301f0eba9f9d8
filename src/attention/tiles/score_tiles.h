#pragma once
// Masked scores of the tiles of one head. Every pass over the keys begins with them: the forward
// pass turns them into weights and outputs; second passes (map_pass.cpp, received_pass.cpp,
// weights_pass.cpp), the backward pass and tangents compute them again.
//
// This room, src/attention/tiles, turns query tiles and key blocks into score tiles. In: a
// ForwardCall (plan/forward_call.h) and a worker's scratch. Out: scores [keys][queries] with their
// masks as bits, for one tile at a time; packed keys and rounded keys of a call. It may use call,
// plan, rows, relative and the kernel tables. It includes neither forward nor backward. The code is
// in the header because it is a template over E.
#include <algorithm>
#include <new>

#include "attention/plan/variant_kernels.h"
#include "attention/relative/relative_tiles.h"
#include "attention/rows/row_transformer.h"
#include "attention/tiles/bias_rows.h"
#include "attention/tiles/group_lanes.h"
#include "attention/tiles/key_blocks.h"
#include "attention/tiles/key_walk.h"
#include "attention/tiles/query_tile.h"
#include "attention/tiles/route_thread.h"
#include "attention/tiles/tile_keys.h"
#include "attention/tiles/tile_places.h"
#include "base/rare.h"

namespace rapt {

template <class E>
class ScoreTiles {
 public:
  ScoreTiles(const ForwardCall<E>& call, const CancelToken* cancel, int worker)
      : call_(call),
        p_(call.problem),
        table_(call.kernels.table),
        route_(call.kernels.route),
        n_(call.kernels.normalizer),
        cancel_(cancel),
        layout_(call.layout),
        scratch_(layout_.workers.nth(call.workspace, worker)),
        relative_(call, layout_.relative, scratch_),
        prefilter_(call),
        group_(call, layout_.group, scratch_),
        exact_(call.kernels, layout_.exact, scratch_),
        blocks_(call, exact_, scratch_),
        route_thread_(call.kernels.route) {
    natural_units_ = p_.has_bias || !call.score_functions.empty() || call.kernels.natural_units;
    constexpr double kLog2OfE = 1.4426950408889634074;
    factor_ = static_cast<E>(natural_units_ ? p_.scale : p_.scale * kLog2OfE);
  }

  // Selects one sequence of one head.
  void begin_head(int64_t head, int64_t sequence) noexcept {
    head_ = head;
    p_.index_of(head, index_);
    // Built in place: a copy would wait for the stores of its members.
    new (&sequence_) Sequence(p_.sequence(sequence, index_));
    place_ = {index_, p_.leading_rank, sequence_.q_len, sequence_.k_len, p_.leading};
    bound_masks_ = BoundMasks(call_.masks, place_, layout_.masks.in_or_null(scratch_));
    query_ = query_row(p_.query, 0);
    blocks_.begin_head(index_, sequence_, sequence, rows_at(call_.key, 0), rows_at(p_.value, 0));
    if (rare(p_.has_bias)) bias_ = BiasRows(p_.bias, row_of(p_.bias, 0));
    relative_.begin_head(index_, place_);
    group_.begin_head(place_);
    if (rare(p_.query.run_rows != 0)) query_ = group_.gather_queries(query_);
    prefilter_.begin_head(index_, sequence_.key_begin);
  }

  // Sets up a tile for the queries at `positions` and packs them. `offset`: its first query's place
  // in the work unit's scratch.
  void begin_tile(QueryTile<E>& tile, Positions positions, int vectors, int64_t offset) noexcept {
    place_tile(tile, positions, vectors, offset);
    tile.hooks.state = at(layout_.state, offset);
    tile.query_t = at(layout_.query_t, offset);
    tile.position_t = p_.rows.adds_biases ? at(layout_.position_t, offset) : tile.query_t;
    std::byte* const transformed = layout_.transformed_query.in_or_null(scratch_, offset);
    pack_queries(tile, transformed, transformed);
    find_outside_rows(tile, transformed);
  }

  // The same without packing the queries.
  void place_tile(QueryTile<E>& tile, Positions positions, int vectors, int64_t offset) noexcept {
    tile.vectors = vectors;
    tile.queries = vectors * table_.lanes;
    tile.offset = offset;
    tile.positions = positions;
    tile.range = bound_masks_.key_range(positions);
    tile.attended = 0;
    Tile<E>& hooks = tile.hooks;
    hooks.entropy = nullptr;
    hooks.factor = row(kFactor);
    hooks.queries = tile.queries;
    hooks.log2_units = !natural_units_;
    hooks.query_positions = positions;
    hooks.head = &place_;
  }

  // Packs the tile's queries, times the factor of the scores, to tile.query_t and tile.position_t.
  // With a row transform, `transformed` [count, head_dim] of the queries' dtype keeps the rows, and
  // `positions` those for products with key_rows. The two may be the same memory.
  void pack_queries(const QueryTile<E>& tile, std::byte* transformed,
                    std::byte* positions) const noexcept {
    const Positions& at = tile.positions;
    const RowsAt original = original_queries(at);
    const auto pack = [&](const RowsAt& rows, void* to) {
      route_.pack_queries(rows.data, rows.row_stride, rows.dim_stride, at.count, p_.head_dim,
                          factor_, tile.queries, to);
    };
    if (!p_.rows.any()) {
      pack(original, tile.query_t);
      return;
    }
    const auto transform_and_pack = [&](const Operand& query_bias, std::byte* kept, void* to) {
      const RowsAt dense{kept, original.dtype, p_.head_dim, 1};
      if (group_.used())
        group_.change_queries(row_transformer(), original, at, dense);
      else
        row_transformer().change(original, p_.rows.query_turns(), query_bias, place_of_queries(at),
                                 dense);
      pack(dense, to);
    };
    transform_and_pack(p_.rows.content_bias, transformed, tile.query_t);
    if (tile.position_t != tile.query_t)
      transform_and_pack(p_.rows.position_bias, positions, tile.position_t);
  }
  // Finds the query rows that the route cannot multiply; ExactRows handles them. `transformed`: the
  // rows that pack_queries() has kept.
  void find_outside_rows(QueryTile<E>& tile, std::byte* transformed) const noexcept {
    if (!exact_.used()) return;
    tile.rows = original_queries(tile.positions);
    if (p_.rows.any()) tile.rows = {transformed, tile.rows.dtype, p_.head_dim, 1};
    tile.outside = exact_.find(tile.rows, tile.positions.count, p_.head_dim).words[0];
  }
  // Query rows before the row transform: in the caller's memory, or those that begin_head() copied.
  RowsAt original_queries(Positions at) const noexcept {
    const Operand& q = p_.query;
    const bool dense = rare(q.run_rows != 0);
    const int64_t stride = dense ? p_.head_dim : q.row_stride;
    return {query_ + at.start * stride * size_of(q.dtype), q.dtype, stride * at.step,
            dense ? 1 : q.dim_stride};
  }

  // Key rows in the caller's memory, before the row transform.
  RowsAt original_keys(Positions at) const noexcept {
    const Operand& k = p_.rows.original_key;
    return {key_row(k, at.start), k.dtype, k.row_stride * at.step, k.dim_stride};
  }

  // The row transformer, and the places of rows of the current head and sequence for it.
  RowTransformer<E> row_transformer() const noexcept {
    return {table_, p_.rows, p_.head_dim, layout_.row_transform, call_.workspace, scratch_};
  }
  RowPlace place_of_queries(Positions at) const noexcept {
    return {index_, p_.leading_rank, sequence_.query_begin + at.start,
            p_.turned(at, sequence_.q_len, sequence_.k_len)};
  }
  RowPlace place_of_keys(Positions at) const noexcept {
    return {index_, p_.leading_rank, sequence_.key_begin + at.start, at};
  }

  // Calls step(tile, block, keys) with the masked scores of every tile and the keys of every block
  // that it attends to. `within`: only blocks there; it begins and ends at blocks.
  template <class Step>
  void for_each_block(QueryTile<E>* tiles, int64_t count, Values values, const Step& step,
                      KeyRange within = kAllKeys) noexcept {
    const auto visit = [&](QueryTile<E>& tile, KeyBlock& block) {
      const TileKeys keys = scores_of(tile, block);
      if (!keys.none()) step(tile, block, keys);
    };
    for_each_tile_and_block(tiles, count, values, within, visit, [] {});
  }
  // Calls visit(tile, block) for all tiles and blocks, for each tile in the order of its keys.
  // Calls release() before the rows of a block are overwritten. Keys that are packed per call are
  // never overwritten; then a tile visits many blocks in a row, so that its queries and outputs
  // stay in the L1.
  template <class Visit, class Release>
  void for_each_tile_and_block(QueryTile<E>* tiles, int64_t count, Values values, KeyRange within,
                               const Visit& visit, const Release& release) noexcept {
    KeyWalk walk = walk_tiles(bound_masks_, tiles, count, within, call_.tiling.block_keys);
    if (blocks_.packed_per_call()) {
      visit_packed_blocks(tiles, count, walk, values, visit);
      return;
    }
    while (walk.next()) {
      if (stopped()) return;
      KeyBlock block = load_block(walk, values);
      for (int64_t i = 0; i < count; ++i) visit(tiles[i], block);
      release();
    }
  }

  // A walk over the chunks of keys within `within` to which some query of the tiles attends.
  KeyWalk walk_chunks(const QueryTile<E>* tiles, int64_t count, KeyRange within) const noexcept {
    return walk_tiles(bound_masks_, tiles, count, within, kChunkKeys);
  }

  // A walk over the blocks of keys within `range` that some of the queries attend to.
  KeyWalk walk_keys(Positions queries, KeyRange range, int64_t origin = 0) const noexcept {
    return {bound_masks_, queries, range, call_.tiling.block_keys, origin};
  }

  // Loads the rows of a block, and packs them if the products cannot read the caller's memory.
  KeyBlock load_block(int64_t begin, int64_t end, Values values) noexcept {
    return blocks_.load(begin, end, {begin, end}, values);
  }

  TileKeys keys_of(const QueryTile<E>& tile, const KeyBlock& block) noexcept {
    return rapt::keys_of(bound_masks_, tile, block, call_.tiling.step, at(layout_.bits));
  }

  // Computes the masked scores of the keys of `block` that the tile attends to. Returns these keys
  // and which pairs are masked out, by masks or by the bias.
  TileKeys scores_of(QueryTile<E>& tile, const KeyBlock& block) noexcept {
    TileKeys keys = keys_of(tile, block);
    if (keys.none()) return keys;
    E bounds[kMaxTileQueries];
    compute_scores(tile, block, keys, at(layout_.scores), nullptr, Keep::nothing,
                   bounds_of(tile, nullptr, nullptr, bounds));
    mask_scores(tile, keys, row(kBlockMax));
    return keys;
  }

  // Completes scores that a pipeline stage has multiplied, with their maxima block_max [queries]:
  // applies score functions and bias, and masks them.
  void complete_scores(QueryTile<E>& tile, TileKeys keys, E* scores, E* block_max) noexcept {
    begin_scores(tile, keys.positions, scores, block_max);
    if (natural_units_) apply_scores_and_bias(tile, keys, block_max, nullptr, Keep::nothing);
    mask_scores(tile, keys, block_max);
  }
  E factor() const noexcept { return factor_; }

  const KeyBlocks<E>& blocks() const noexcept { return blocks_; }

  // The prefilter: whether the call has one, and enabling it for a tile by rounding its packed
  // queries to `to`.
  bool prefiltered() const noexcept { return prefilter_.used(); }
  void use_prefilter(QueryTile<E>& tile, std::byte* to) const noexcept {
    prefilter_.round(tile.query_t, tile.queries, to, tile.prefilter);
  }
  // Writes to `bounds` [queries] the scores at or below which no pair of the tile gets a weight;
  // null: the tile has no prefilter. Without a statistic, bounds hold for the keys that the
  // normaliser has collected so far.
  const E* bounds_of(const QueryTile<E>& tile, const E* statistic, const E* delta,
                     E* bounds) const noexcept {
    if (!rare(tile.prefilter.rounded != nullptr)) return nullptr;
    n_.bounds(call_.normalizer_object, tile.hooks, statistic, delta, bounds);
    close_rows(tile, statistic ? ~uint64_t{0} : tile.hooks.kept.open, bounds);
    return bounds;
  }
  // Gives lanes without a query, and closed rows, a bound of +inf, so that none of their scores is
  // computed.
  void close_rows(const QueryTile<E>& tile, uint64_t open, E* bounds) const noexcept {
    const uint64_t closed = ~(low_bits(tile.positions.count) & open);
    for (uint64_t left = low_bits(tile.queries) & closed; left; left &= left - 1)
      bounds[__builtin_ctzll(left)] = static_cast<E>(__builtin_inf());
  }

  // Which of these keys the tile attends to: all, or none. Fills in bits [keys.count] if some pairs
  // are masked out; otherwise compute_scores() does it where it needs them.
  TileKeys mask_keys(const QueryTile<E>& tile, Positions keys, uint64_t* bits) const noexcept {
    const Cover cover = bound_masks_.cover(tile.positions, keys, bits);
    if (cover == Cover::none) return {};
    return {keys, cover == Cover::some, bits};
  }

  // Which scores compute_scores() keeps before and after the score functions of the call.
  enum class Keep : uint8_t { nothing, for_backward, found };

  // Computes the scores of a tile and keys of a block, after mask_keys(). Masked-out pairs get
  // scores, too; block_max is complete only after scores_of(). Adds the pairs that the bias masks
  // out to `tile_keys`. `before` [score functions + 1][keys][queries]: the scores before each score
  // function and after the last one, as far as `keep` asks for them. `bounds` [queries]: scores at
  // or below them may become -inf; null: none may.
  void compute_scores(QueryTile<E>& tile, const KeyBlock& block, TileKeys& tile_keys, E* scores,
                      E* before, Keep keep, const E* bounds = nullptr) noexcept {
    // Keys follow one another: the step is 1. A copy of the whole would wait for the stores.
    const Positions keys{tile_keys.positions.start, 1, tile_keys.positions.count};
    const int64_t first = keys.start - block.begin;
    begin_scores(tile, keys, scores, row(kBlockMax));
    if (rare(bounds != nullptr) &&
        prefilter_.scores(tile.prefilter, tile.vectors, tile.queries, keys, bounds, tile.query_t,
                          block.key + first * block.key_stride * route_.element_size,
                          block.key_stride, scores, row(kBlockMax)))
      return;
    // A bias is prefetched for some keys at a time; adding it finds block_max anew.
    const int64_t some = bias_.needs_prefetch() ? bias_.keys_per_prefetch(route_.step) : keys.count;
    RowRuns runs;
    for (int64_t j = 0; j < keys.count; j += some) {
      if (rare(bias_.needs_prefetch())) bias_.prefetch(tile.positions, keys, j, j + some);
      const int64_t count = std::min(some, keys.count - j);
      route_.products[tile.vectors - 1].scores(
          tile.query_t, blocks_.keys_of(block, first + j, count, runs), block.key_stride, count,
          p_.head_dim, factor_, scores + j * tile.queries, row(kBlockMax));
    }
    if (rare(tile.outside != 0) || block.key_outside.any())
      exact_.replace_scores(
          tile.rows, tile.positions.count, tile.outside,
          p_.pages.used() ? block.key_rows.from(first) : rows_at(call_.key, keys.start), keys.count,
          block.key_outside.part(first, keys.count), p_.head_dim, factor_, tile.vectors, scores,
          row(kBlockMax));
    if (p_.relative.tables())
      relative_.add_scores(
          tile.position_t,
          {reinterpret_cast<const E*>(block.key) + first * block.key_stride, block.key_stride},
          factor_, tile.vectors, tile.positions, keys, scores, row(kBlockMax));
    if (rare(natural_units_)) apply_scores_and_bias(tile, tile_keys, row(kBlockMax), before, keep);
  }

  // Turns the tile's scores into final weights. Masked-out pairs have weight 0, even in a row with
  // a NaN, and so do lanes beyond the last query.
  void final_weights(QueryTile<E>& tile, const TileKeys& keys) noexcept {
    weights_of_queries(tile, keys);
    E* const scores = tile.hooks.scores;
    for (int64_t i = tile.positions.count; i < tile.queries; ++i)
      for (int64_t j = 0; j < keys.positions.count; ++j) scores[j * tile.queries + i] = 0;
  }
  // The same, with numbers of any kind in lanes beyond the last query.
  void weights_of_queries(QueryTile<E>& tile, const TileKeys& keys) noexcept {
    n_.weights(call_.normalizer_object, tile.hooks);
    for (int64_t j = 0; keys.partial && j < keys.positions.count; ++j)
      for (uint64_t left = ~keys.bits[j] & low_bits(tile.positions.count); left; left &= left - 1)
        tile.hooks.scores[j * tile.queries + __builtin_ctzll(left)] = 0;
  }

  // The pairs of the tile that dropout keeps, one word per key as in TileKeys. Random numbers
  // belong to positions in the whole tensors.
  const uint64_t* kept(const QueryTile<E>& tile) const noexcept {
    uint64_t* bits = at(layout_.kept);
    table_.dropout.draw(
        p_.dropout_seed, p_.drop_below, head_, sequence_.query_begin + tile.positions.start,
        sequence_.key_begin + tile.hooks.key_positions.start, tile.hooks.keys, tile.queries, bits);
    return bits;
  }

  // The same for one pair.
  bool kept(int64_t query, int64_t key) const noexcept {
    uint64_t bit;
    table_.dropout.draw(p_.dropout_seed, p_.drop_below, head_, sequence_.query_begin + query,
                        sequence_.key_begin + key, 1, 1, &bit);
    return bit != 0;
  }

  // Whether some of the queries may attend to a key in [begin, end).
  bool may_attend(Positions queries, int64_t begin, int64_t end) const noexcept {
    const KeyRange range = bound_masks_.key_range(queries);
    return range.begin < end && begin < range.end;
  }

  // Rows of keys, or of values, from `position` on.
  RowsAt rows_at(const Operand& o, int64_t position) const noexcept {
    return {key_row(o, position), o.dtype, o.row_stride, o.dim_stride};
  }
  // The same of a block's rows of values.
  RowsAt values_at(const KeyBlock& block, int64_t position) const noexcept {
    return p_.pages.used() ? block.value_rows.from(position - block.begin)
                           : rows_at(p_.value, position);
  }
  // The address of a row of values of the current head and sequence.
  std::byte* value_row(int64_t position) const noexcept { return blocks_.value_row(position); }
  const ExactRows<E>& exact() const noexcept { return exact_; }
  // The address of a query row, or of a key row, of the current head and sequence.
  std::byte* query_row(const Operand& o, int64_t position) const noexcept {
    return row_of(o, sequence_.query_begin + position);
  }
  std::byte* key_row(const Operand& o, int64_t position) const noexcept {
    return row_of(o, sequence_.key_begin + position);
  }

  RelativeTiles<E>& relative() noexcept { return relative_; }
  const RelativeTiles<E>& relative() const noexcept { return relative_; }

  const GroupLanes<E>& group() const noexcept { return group_; }

  bool stopped() const noexcept { return cancel_ && cancel_->cancelled(); }
  int64_t head() const noexcept { return head_; }
  const Sequence& sequence() const noexcept { return sequence_; }
  int64_t offset_of(const Operand& o) const noexcept {
    return o.offset_of(index_, p_.leading_rank);
  }
  // A scratch row [tile queries] for temporary use.
  E* row(TileRow which) const noexcept { return at(layout_.rows, which); }
  // The worker's scratch, and an array in it, from a row on.
  std::byte* scratch() const noexcept { return scratch_; }
  template <class T>
  T* at(const Place<T>& place, int64_t row = 0) const noexcept {
    return place.in(scratch_, row);
  }

 private:
  template <class Visit>
  void visit_packed_blocks(QueryTile<E>* tiles, int64_t count, KeyWalk& walk, Values values,
                           const Visit& visit) noexcept {
    const int64_t many = call_.tiling.blocks_at_work;
    KeyBlock blocks[kMostBlocksAtWork];
    for (bool more = true; more;) {
      int64_t loaded = 0;
      while (loaded < many && (more = walk.next())) blocks[loaded++] = load_block(walk, values);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t b = 0; b < loaded; ++b) {
          if (stopped()) return;
          visit(tiles[i], blocks[b]);
        }
    }
  }

  KeyBlock load_block(KeyWalk& walk, Values values) noexcept {
    const int64_t end = std::min(walk.begin() + call_.tiling.block_keys, sequence_.k_len);
    return blocks_.load(walk.begin(), end, walk.attended(), values);
  }

  std::byte* row_of(const Operand& o, int64_t row) const noexcept {
    return o.at(offset_of(o) + o.row_offset(row));
  }

  // Sets the arguments of hooks that depend on the keys.
  static void begin_scores(QueryTile<E>& tile, Positions keys, E* scores, E* block_max) noexcept {
    tile.hooks.scores = scores;
    tile.hooks.block_max = block_max;
    tile.hooks.keys = keys.count;
    tile.hooks.key_positions = keys;
  }

  // Sets scores of masked-out pairs to -inf, and records which queries have attended to a key.
  void mask_scores(QueryTile<E>& tile, const TileKeys& keys, E* block_max) noexcept {
    const int64_t count = keys.positions.count;
    uint64_t attended = low_bits(tile.positions.count);
    if (rare(keys.partial)) {
      table_.exclude(tile.hooks.scores, keys.bits, count, tile.queries, block_max);
      attended = 0;
      for (int64_t j = 0; j < count; ++j) attended |= keys.bits[j];
    } else if (!call_.score_functions.empty() && (!bias_.exists() || p_.bias_first)) {
      // Score functions do not update the maximum; a bias that is added after them does.
      table_.find_max(tile.hooks.scores, count, tile.queries, block_max);
    }
    tile.attended |= attended;
  }

  // Applies score functions and bias, in natural units. The bias itself decides which pairs it
  // masks out, not the score that it becomes: a cap turns -inf into a finite number.
  void apply_scores_and_bias(QueryTile<E>& tile, TileKeys& keys, E* block_max, E* before,
                             Keep keep) noexcept {
    if (p_.bias_first) add_bias(tile, keys, block_max);
    apply_scores(tile, before, keep);
    if (p_.has_bias && !p_.bias_first) add_bias(tile, keys, block_max);
  }

  void apply_scores(QueryTile<E>& tile, E* before, Keep keep) noexcept {
    const int64_t count = tile.hooks.keys * tile.queries;
    bool keep_result = false;  // does the previous score function need its result?
    for (const ScoreRef& score : call_.score_functions) {
      const ScoreKernels<E>& kernel = hooks_of(score, table_);
      if (keep == Keep::found ||
          (keep == Keep::for_backward && (keep_result || kernel.uses_before)))
        std::copy_n(tile.hooks.scores, count, before);
      if (group_.used() && !kernel.placeless)
        group_.apply(tile, score, kernel);
      else
        kernel.apply(score.object, tile.hooks);
      keep_result = kernel.uses_after;
      before += keep == Keep::nothing ? 0 : count;
    }
    if (keep == Keep::for_backward && keep_result) std::copy_n(tile.hooks.scores, count, before);
  }

  void add_bias(QueryTile<E>& tile, TileKeys& keys, E* block_max) noexcept {
    const int64_t count = keys.positions.count;
    if (!keys.partial) std::fill_n(keys.bits, count, low_bits(tile.positions.count));
    const RowsAt rows =
        bias_.of_tile(tile.positions, keys.positions, [&] { return group_.dense_rows(); });
    keys.partial |= table_.add_bias[static_cast<int>(rows.dtype)](
        tile.hooks.scores, rows.data, rows.row_stride, rows.dim_stride, count, tile.positions.count,
        tile.queries, keys.bits, block_max);
  }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const KernelTable<E>& table_;
  const RouteKernels<E>& route_;
  const NormalizerKernels<E>& n_;
  const CancelToken* cancel_;
  const TilePlaces<E>& layout_;
  std::byte* scratch_;
  RelativeTiles<E> relative_;
  Prefilter<E> prefilter_;
  GroupLanes<E> group_;
  ExactRows<E> exact_;
  KeyBlocks<E> blocks_;
  RouteThread<E> route_thread_;
  bool natural_units_ = false;
  E factor_ = 1;  // of scores or queries: the scale, times log2 e in log2 units
  int64_t head_ = 0;
  int64_t index_[kMaxRank];  // [leading_rank]
  Sequence sequence_;
  Head place_;
  BoundMasks bound_masks_;
  std::byte* query_ = nullptr;
  BiasRows bias_;
};

}  // namespace rapt
