// The forward pass. A work unit is a few query tiles of one head. It walks once over the key blocks
// that any of its tiles attends to (whole-row normalisers: at least twice). Each block serves all
// tiles while it is in the cache. Sparse normalisers: sparse_rows.h. Long rows: chunks.h.
#include "attention/forward/forward.h"

#include <algorithm>
#include <new>

#include "attention/forward/saved_state.h"
#include "attention/tiles/prepare_keys.h"
#include "attention/tiles/tile_rows.h"
#include "base/rare.h"
#include "threads/task_run.h"

namespace rapt {
namespace {

template <class E>
class Forward {
 public:
  Forward(const PassInput<E>& in, int worker)
      : in_(in),
        call_(in.call),
        layout_(in.layout),
        p_(call_.problem),
        n_(call_.kernels.normalizer),
        tiles_(call_, in.cancel, worker),
        chunks_(call_, layout_.chunks, tiles_),
        pipelined_(call_, layout_.pipeline, tiles_),
        sparse_(call_, layout_.sparse, tiles_),
        top_(call_, layout_.top, tiles_),
        kept_(call_, layout_.kept, tiles_) {}

  // Computes a work unit.
  void run(int64_t unit) noexcept {
    QueryTile<E>* const tile = tiles_.at(layout_.tiles);
    const int64_t count = begin_tiles(select(unit), tile);
    for (int64_t i = 0; i < count; ++i) begin_row(tile[i]);
    if (rare(n_.settle != nullptr)) {
      settle_rows(tile, count);
    } else {
      if (rare(n_.whole_row)) solve_rows(tile, count);
      chunks_.sum(tile, count, [&](KeyRange keys) { add_keys(tile, count, keys); });
    }
    if (tiles_.stopped()) return;
    for (int64_t i = 0; i < count; ++i) finish_tile(tile[i]);
    kept_.sum_received();
  }

  // Sums the chunks of one task of a split unit.
  void run_part(int64_t unit, int64_t part) noexcept {
    QueryTile<E>* const tile = tiles_.at(layout_.tiles);
    const int64_t count = begin_tiles(select(unit), tile);
    chunks_.sum_part(unit, part, tile, count, [&](KeyRange keys) { add_keys(tile, count, keys); });
  }

  // Computes a split unit from the sums of its chunks.
  void merge(int64_t unit) noexcept {
    QueryTile<E>* const tile = tiles_.at(layout_.tiles);
    const int64_t count = call_.tiling.for_each_tile(
        select(unit), [&](int64_t n, Positions positions, int vectors, int64_t offset) {
          tiles_.place_tile(*new (&tile[n]) QueryTile<E>, positions, vectors, offset);
        });
    chunks_.merge_all(unit, tile, count);
    for (int64_t i = 0; i < count; ++i) finish_tile(tile[i]);
  }

 private:
  // Selects the head and the sequence of a work unit. Returns its queries. Units are numbered head
  // by head. If t.heads_in_turn > 1, successive units belong in turn to the heads of a group of
  // that size. Within a sequence, the units with the most causal keys come first.
  Positions select(int64_t unit) noexcept {
    const Tiling& t = call_.tiling;
    const int64_t units = t.heads_in_turn * t.units_per_head;  // of the heads in one turn
    int64_t head = unit < units ? 0 : unit / units;
    int64_t within = unit - head * units, sequence = 0;
    if (rare(t.heads_in_turn > 1)) {
      head = head * t.heads_in_turn + within % t.heads_in_turn;
      within /= t.heads_in_turn;
    }
    if (rare(p_.query_starts != nullptr)) {
      const int64_t* const starts = call_.at(layout_.unit_starts);
      sequence = std::upper_bound(starts, starts + p_.sequences, within) - starts - 1;
      within -= starts[sequence];
    }
    tiles_.begin_head(head, sequence);
    const int64_t q_len = tiles_.sequence().q_len;
    const int64_t first = (t.units(q_len) - 1 - within) * t.unit_queries;
    return {first, 1, std::min(t.unit_queries, q_len - first)};
  }

  int64_t begin_tiles(const Positions& queries, QueryTile<E>* tile) noexcept {
    return call_.tiling.for_each_tile(
        queries, [&](int64_t n, Positions positions, int vectors, int64_t offset) {
          tiles_.begin_tile(*new (&tile[n]) QueryTile<E>, positions, vectors, offset);
          kept_.begin(tile[n], n);
        });
  }

  void begin_row(QueryTile<E>& tile) noexcept {
    chunks_.use(tile, {.state = tile.hooks.state,
                       .output_t = tiles_.at(layout_.output_t, tile.offset),
                       .entropy = call_.captures.entropy ? tiles_.at(layout_.entropy, tile.offset)
                                                         : nullptr,
                       .attended = 0});
    top_.begin(tile);
    if (rare(n_.settle != nullptr)) sparse_.open(tile);
    chunks_.begin(tile);
  }

  void solve_rows(QueryTile<E>* tile, int64_t count) noexcept {
    for (bool more = true; more && !tiles_.stopped();) {
      tiles_.for_each_block(tile, count, Values::skip,
                            [&](QueryTile<E>& one, KeyBlock&, const TileKeys&) {
                              n_.collect(call_.normalizer_object, one.hooks);
                            });
      more = false;
      for (int64_t i = 0; i < count; ++i) more |= n_.solve(call_.normalizer_object, tile[i].hooks);
    }
  }

  // Adds keys, whole blocks of them, to the sums of the tiles.
  void add_keys(QueryTile<E>* tile, int64_t count, KeyRange keys) noexcept {
    const auto apply_one = [&](QueryTile<E>& one, KeyBlock& block, const TileKeys& of_one) {
      apply(one, block, of_one);
    };
    if (pipelined_.used())
      pipelined_.run(tile, count, keys, apply_one);
    else
      tiles_.for_each_block(tile, count, Values::load, apply_one, keys);
  }

  void settle_rows(QueryTile<E>* tile, int64_t count) noexcept {
    tiles_.for_each_block(tile, count, Values::skip,
                          [&](QueryTile<E>& one, KeyBlock&, const TileKeys&) {
                            top_.add(one);
                            n_.collect(call_.normalizer_object, one.hooks);
                            if (one.hooks.kept.open == 0 && !top_.wanted()) one.range = {0, 0};
                          });
    for (int64_t i = 0; i < count && !tiles_.stopped(); ++i)
      sparse_.settle(tile[i], tile[i].output_t);
  }

  void apply(QueryTile<E>& tile, KeyBlock& block, const TileKeys& keys) noexcept {
    top_.add(tile);
    kept_.add(tile, keys);
    tile.hooks.zero = tile.hooks.rescale = false;
    n_.apply(call_.normalizer_object, tile.hooks);
    // Normalisers of the catalogue turn a score of -inf into weight 0; a custom one may not.
    if (rare(n_.custom) && keys.partial)
      call_.kernels.table.dropout.keep(tile.hooks.scores, keys.bits, keys.positions.count,
                                       tile.queries, E(1));
    if (tile.hooks.zero && !tile.hooks.rescale) return;
    if (rare(p_.drop_below > 0)) drop(tile);
    add_values(tile, block, keys, tile.output_t);
    tiles_.relative().add_output(tile.hooks.scores, tile.vectors, tile.positions, keys.positions,
                                 keys.allowed(), tile.output_t);
  }

  // Sets the weights of dropped pairs to 0. finish_tile() applies the factor of the kept pairs.
  void drop(QueryTile<E>& tile) noexcept {
    call_.kernels.table.dropout.keep(tile.hooks.scores, tiles_.kept(tile), tile.hooks.keys,
                                     tile.queries, E(1));
  }

  // Adds the tile's weights times the values of these keys to its output.
  void add_values(const QueryTile<E>& tile, KeyBlock& block, const TileKeys& keys,
                  E* output) noexcept {
    const RouteKernels<E>& route = call_.kernels.route;
    const int64_t first = keys.positions.start - block.begin, count = keys.positions.count;
    // A masked-out pair has weight 0, but 0 * NaN is NaN. Only partial tiles are affected.
    const bool of_bits = rare(keys.partial) && !tiles_.blocks().finite(block);
    RowRuns runs;
    const void* const value = tiles_.blocks().values_of(block, first, count, runs);
    const E* rescale = tile.hooks.rescale ? tile.hooks.factor : nullptr;
    const E* const exact_weights = tile.hooks.scores;
    const void* weights = exact_weights;
    if (rare(route.round_weights != nullptr)) {
      void* rounded = tiles_.at(layout_.rounded);
      route.round_weights(exact_weights, count, tile.queries, rounded);
      weights = rounded;
    }
    if (rare(of_bits))
      route.output_of_bits(weights, keys.bits, value, block.value_stride, count, p_.value_dim,
                           rescale, tile.queries, output);
    else
      route.products[tile.vectors - 1].output(weights, value, block.value_stride, count,
                                              p_.value_dim, rescale, output);
    if (block.value_outside.any())
      tiles_.exact().add_output(tiles_.values_at(block, keys.positions.start), count, p_.value_dim,
                                exact_weights, keys.allowed(), tile.vectors, output);
  }

  void finish_tile(QueryTile<E>& tile) noexcept {
    const Outputs& o = call_.outputs;
    const Finish<E> result{.inverse = tiles_.row(kMultiplier),
                           .statistic = o.statistic.data ? tiles_.row(kStatistic) : nullptr,
                           .entropy = o.entropy.data ? tiles_.row(kEntropy) : nullptr};
    n_.finish(call_.normalizer_object, tile.hooks, result);
    // A row that attends only to scores of -inf is NaN: its weights are 0 / 0. Its statistic must
    // be NaN, too: -inf means a row without keys, which has no gradients.
    if (!n_.custom && result.statistic)
      for (int64_t i = 0; i < tile.positions.count; ++i)
        if ((tile.attended >> i & 1) && result.statistic[i] == -E(__builtin_inf()) &&
            !(result.inverse[i] - result.inverse[i] == 0))
          result.statistic[i] = static_cast<E>(__builtin_nan(""));
    if (rare(p_.drop_below > 0)) {
      const auto factor = static_cast<E>(p_.kept_factor());
      for (int64_t i = 0; i < tile.queries; ++i) result.inverse[i] *= factor;
    }
    store_rows(tiles_, call_.kernels.table, tile.output_t, p_.value_dim, tile, result.inverse,
               tile.attended, o.output);
    const auto store_column = [&](const Operand& target, const E* column, bool zero_if_unattended) {
      auto* const out = reinterpret_cast<E*>(tiles_.query_row(target, 0));
      for (int64_t i = 0; i < tile.positions.count; ++i)
        out[target.row_offset(tile.positions[i])] =
            zero_if_unattended && !(tile.attended >> i & 1) ? E(0) : column[i];
    };
    if (result.statistic) store_column(o.statistic, result.statistic, false);
    if (rare(result.entropy != nullptr)) store_column(o.entropy, result.entropy, true);
    if (call_.captures.second_pass())
      for (int r = 0; r < n_.state_rows; ++r)
        std::copy_n(tile.hooks.state + r * tile.queries, tile.positions.count,
                    saved_state(in_, tiles_, r) + tile.positions.start);
    finish_top(tile);
    kept_.finish(tile);
  }

  // Turns the top-k scores into weights, and writes weights and keys.
  void finish_top(QueryTile<E>& tile) noexcept {
    const Outputs& o = call_.outputs;
    top_.for_each_part(tile, [&](int64_t first, int64_t places, E* scores, const auto& key_at) {
      if (o.top_keys.data) {
        auto* out = reinterpret_cast<int64_t*>(tiles_.query_row(o.top_keys, 0));
        out += first * o.top_keys.dim_stride;
        for (int64_t i = 0; i < tile.positions.count; ++i)
          for (int64_t k = 0; k < places; ++k)
            out[o.top_keys.row_offset(tile.positions[i]) + k * o.top_keys.dim_stride] =
                key_at(k, i);
      }
      if (!o.top_weights.data) return;
      Tile<E> list = tile.hooks;
      list.scores = scores;
      list.keys = places;
      n_.weights(call_.normalizer_object, list);
      // An entry without a key has weight 0, even in a row with a NaN.
      for (int64_t k = 0; k < places; ++k)
        for (int64_t i = 0; i < tile.queries; ++i)
          if (key_at(k, i) < 0) scores[k * tile.queries + i] = 0;
      Operand part = o.top_weights;
      part.data = part.at(first * part.dim_stride);
      store_rows<E>(tiles_, call_.kernels.table, scores, places, tile, nullptr, tile.attended,
                    part);
    });
  }

  const PassInput<E>& in_;
  const ForwardCall<E>& call_;
  const ForwardLayout<E>& layout_;
  const Problem& p_;
  const NormalizerKernels<E>& n_;
  ScoreTiles<E> tiles_;
  ChunkedRows<E> chunks_;
  PipelinedTiles<E> pipelined_;
  SparseRows<E> sparse_;
  TopScores<E> top_;
  KeptScores<E> kept_;
};

template <class E>
int64_t units_of(const ForwardCall<E>& call) {
  return call.problem.heads * call.tiling.units_per_head;
}

// The tasks of a call whose units are split: their parts, unit by unit; then their merges.
template <class E>
Pass<E> parts_pass(const ForwardCall<E>& call) {
  return {units_of(call) * call.tiling.parts(),
          [](const PassInput<E>& in, int64_t task, int worker) noexcept {
            const int64_t parts = in.call.tiling.parts();
            Forward<E>(in, worker).run_part(task / parts, task % parts);
          }};
}
template <class E>
Pass<E> merge_pass(const ForwardCall<E>& call) {
  return {units_of(call), [](const PassInput<E>& in, int64_t unit, int worker) noexcept {
            Forward<E>(in, worker).merge(unit);
          }};
}

template <class E>
Pass<E> forward_pass(const ForwardCall<E>& call) {
  const int64_t per_task = call.tiling.units_per_task;
  return {ceil_div(units_of(call), per_task),
          [](const PassInput<E>& in, int64_t task, int worker) noexcept {
            Forward<E> forward(in, worker);
            const int64_t units = in.call.tiling.units_per_task, begin = task * units;
            const int64_t end = std::min(begin + units, units_of(in.call));
            for (int64_t unit = begin; unit < end; ++unit) forward.run(unit);
          }};
}

// Writes where the work units and key blocks of each sequence begin; tasks look them up.
template <class E>
void write_starts(const ForwardCall<E>& call, const ForwardLayout<E>& layout) {
  const Problem& p = call.problem;
  if (!rare(p.query_starts != nullptr)) return;
  int64_t* const units = call.at(layout.unit_starts);
  int64_t* const blocks = layout.block_starts.in_or_null(call.workspace);
  int64_t unit = 0, block = 0;
  for (int64_t s = 0; s <= p.sequences; ++s) {
    units[s] = unit;
    if (blocks) blocks[s] = block;
    if (s == p.sequences) return;
    unit += call.tiling.units(p.sequence(s).q_len);
    block += call.tiling.blocks(p.sequence(s).k_len);
  }
}

}  // namespace

template <class E>
void run_forward(const ForwardCall<E>& call, const ForwardLayout<E>& layout,
                 const Context& context) {
  write_starts(call, layout);
  prepare_keys(call, context);
  const PassInput<E> in{call, layout, context.cancel};
  const bool splits = rare(call.tiling.splits()), second = call.captures.second_pass();
  Pass<E> passes[5] = {splits ? parts_pass(call) : forward_pass(call)};
  size_t count = 1;
  if (splits) passes[count++] = merge_pass(call);
  if (second) passes[count++] = weights_pass(in);
  if (second) passes[count++] = map_pass(in);
  if (second) passes[count++] = received_pass(in);
  int64_t tasks = 0;
  for (const Pass<E>& pass : std::span(passes, count)) tasks += pass.tasks;
  TaskRun run(context, tasks);
  for (const Pass<E>& pass : std::span(passes, count))
    run.run(pass.tasks, call.tiling.workers, call.tiling.to_executor,
            [&](int64_t task, int worker) { pass.run(in, task, worker); });
}

template void run_forward(const ForwardCall<float>&, const ForwardLayout<float>&, const Context&);
template void run_forward(const ForwardCall<double>&, const ForwardLayout<double>&, const Context&);

}  // namespace rapt
