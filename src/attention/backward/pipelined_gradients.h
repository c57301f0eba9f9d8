#pragma once
// The software pipeline of the backward pass over the tiles of a work unit and the blocks of a
// walk. An item is a tile with a block. A stage multiplies the next item, makes the weights and
// score gradients of the current one, and sums up the previous one (GradientStage, kernel_table.h).
// Sums over queries need all tiles of a block; they are spread over the stages in which the tiles
// of the next block are current.
//
// Every block has the same bits as on its own (GradientTiles::walk_block). A block is computed
// outside the pipeline, after all earlier blocks, if it has rows that need ExactRows, or masked-out
// pairs together with rows that are not finite. The code is in the header because it is a template
// over E.
#include "attention/backward/gradient_products.h"

namespace rapt {

template <class E>
class PipelinedGradients {
 public:
  PipelinedGradients(const BackwardCall<E>& call, ScoreTiles<E>& tiles, GradientKeys<E>& keys,
                     GradientProducts<E>& products) noexcept
      : p_(call.problem()),
        wanted_(call.wanted),
        places_(call.layout.tiles),
        route_(call.forward.kernels.route),
        stage_(call.forward.kernels.gradient_stage),
        tiles_(tiles),
        keys_(keys),
        products_(products) {}

  // Whether the pipeline handles a walk. A walk without score gradients has less to overlap.
  bool handles(const QueryUnit<E>& unit, Sides sides) const noexcept {
    return stage_ && p_.value_dim > 0 && (unit.d_query_t || (wanted_.key && sides.keys));
  }

  // Adds all loaded blocks to the sums. walk_alone(keys) adds a block outside the pipeline.
  template <class WalkAlone>
  void walk(QueryUnit<E>& unit, const KeySums<E>& sums, Sides sides,
            const WalkAlone& walk_alone) noexcept {
    next_ = current_ = previous_ = {};
    keys_.for_each_block(unit.positions, unit.range, [&](Positions keys) {
      AttendedTiles attended;
      find_attended(unit, keys, attended);
      if (attended.count == 0) return;
      if (!can_pipeline(unit, keys, attended, sides)) {
        drain();
        walk_alone(keys);
        return;
      }
      ++nth_block_;
      Block& block = blocks_[nth_block_ % 3];
      open(block, unit, keys, attended, sums, sides);
      for (int64_t i = 0; i < attended.count; ++i) {
        begin(unit, *attended.tiles[i], keys, attended.bits[i], i, sides);
        if (i + 1 == attended.count) next_.completes = &block;
        stage();
      }
    });
    drain();
  }

 private:
  // Tiles of a work unit that attend to some of the keys, and their bits; null: no pair is masked
  // out.
  struct AttendedTiles {
    int64_t count = 0;
    QueryTile<E>* tiles[kMostUnitTiles];
    uint64_t* bits[kMostUnitTiles];  // [keys] each
    bool partial = false;            // some pairs are masked out
  };
  // A block. Its sums over queries are made after all of its tiles have been at work.
  struct Block {
    GradientSpan<E> weights[kMostUnitTiles], d_scores[kMostUnitTiles];
    StageKeySums<E> d_value, d_key;  // a sum that is not wanted has no panels
    int64_t panels, share, done;     // panels of both sums; panels per stage; panels that are done
  };
  struct Item {
    bool present = false;
    StageProducts<E> products;
    StageGradients<E> gradients;
    StageOutput<E> d_query;
    Block* completes = nullptr;  // set for the last tile of a block
  };

  void find_attended(const QueryUnit<E>& unit, Positions keys, AttendedTiles& attended) noexcept {
    QueryTile<E>* const tile = tiles_.at(places_.tiles);
    for (int64_t i = 0; i < unit.tile_count; ++i) {
      uint64_t* const bits = of_tile(places_.bits, nth_block_ + 1, i);
      if (tile[i].range.begin >= keys.start + keys.count || tile[i].range.end <= keys.start)
        continue;
      const TileKeys tile_keys = tiles_.mask_keys(tile[i], keys, bits);
      if (tile_keys.none()) continue;
      const int64_t count = tile[i].positions.count;
      // Lanes beyond the last query hold queries of 0, but 0 times an infinite key is NaN.
      const bool lanes_left = count < tile[i].queries;
      if (!tile_keys.partial && lanes_left) std::fill_n(bits, keys.count, low_bits(count));
      attended.partial |= tile_keys.partial;
      attended.bits[attended.count] = tile_keys.partial || lanes_left ? bits : nullptr;
      attended.tiles[attended.count++] = &tile[i];
    }
  }

  bool can_pipeline(QueryUnit<E>& unit, Positions keys, const AttendedTiles& attended,
                    Sides sides) noexcept {
    const KeyBlock block = keys_.block_of(keys);
    if (block.key_outside.any() || block.value_outside.any()) return false;
    for (int64_t i = 0; i < attended.count; ++i)
      if ((attended.tiles[i]->outside | attended.tiles[i]->d_output_outside) != 0) return false;
    return !attended.partial || products_.finite(unit, keys, sides);
  }

  // Sets up the sums over queries of a block, from operands that its tiles will write.
  void open(Block& block, const QueryUnit<E>& unit, Positions keys, const AttendedTiles& attended,
            const KeySums<E>& sums, Sides sides) noexcept {
    const int64_t at = keys.start - sums.begin;
    block.panels = block.done = 0;
    const auto sum_of = [&](bool wanted, GradientSpan<E>* spans, const Place<std::byte>& place,
                            const Rows& rows, int64_t dims, E* gradient,
                            int64_t stride) -> StageKeySums<E> {
      if (!wanted) return {};
      for (int64_t i = 0; i < attended.count; ++i) {
        const QueryTile<E>& tile = *attended.tiles[i];
        spans[i] = {of_tile(place, nth_block_, i),
                    tile.queries,
                    rows.data + tile.offset * rows.stride * route_.element_size,
                    rows.stride,
                    tile.positions.count,
                    nullptr};
      }
      block.panels += ceil_div(keys.count, route_.step) * ceil_div(dims, route_.step);
      return {spans, attended.count, keys.count, dims, gradient + at * stride, stride, 0, 0};
    };
    block.d_value = sum_of(wanted_.value && sides.keys, block.weights, places_.rounded_weights,
                           unit.d_output_rows, p_.value_dim, sums.d_value, sums.d_value_stride);
    block.d_value.end = block.panels;
    block.d_key = sum_of(wanted_.key && sides.keys, block.d_scores, places_.rounded_d_scores,
                         unit.query_rows, p_.head_dim, sums.d_key, sums.d_key_stride);
    block.share = ceil_div(block.panels, unit.tile_count);
  }

  // Sets up the nth tile that attends to the block as the next item.
  void begin(const QueryUnit<E>& unit, const QueryTile<E>& tile, Positions keys,
             const uint64_t* bits, int64_t nth, Sides sides) noexcept {
    E *const scores = tiles_.at(places_.weights), *const d_weights = tiles_.at(places_.d_weights);
    void* const of_query =
        unit.d_query_t ? tiles_.at(places_.d_scores_of_query, ++nth_item_ & 1) : nullptr;
    const KeyBlock block = keys_.block_of(keys);
    const Rows values = keys_.values(keys.start), summed = keys_.summed_keys(keys.start);
    next_.present = true;
    next_.products = {
        {tile.query_t, block.key, block.key_stride, p_.head_dim, scores},
        {unit.arrays.d_output_t(tile.offset), values.data, values.stride, p_.value_dim, d_weights},
        keys.count};
    next_.gradients = {
        scores,
        d_weights,
        tiles_.factor(),
        unit.arrays.statistic(tile.offset),
        unit.arrays.delta(tile.offset),
        bits,
        keys.count,
        wanted_.value && sides.keys ? of_tile(places_.rounded_weights, nth_block_, nth) : nullptr,
        wanted_.key && sides.keys ? of_tile(places_.rounded_d_scores, nth_block_, nth) : nullptr,
        of_query};
    next_.d_query = {};
    if (of_query)
      next_.d_query = {of_query,
                       summed.data,
                       summed.stride,
                       keys.count,
                       p_.head_dim,
                       nullptr,
                       unit.content_sums + tile.offset * p_.head_dim};
  }

  // Multiplies the next item, makes the operands of the current one, sums up the previous one and a
  // share of the previous block. Then all items advance by one.
  void stage() noexcept {
    StageSums<E> sums = {};
    if (previous_.present) sums.d_query = previous_.d_query;
    const bool to_sum = previous_.present || complete_block_;
    // At the last tile of a block, all remaining panels of the previous block are summed, because
    // the operands of the previous block are overwritten next.
    if (complete_block_)
      take_panels(*complete_block_, !current_.present || current_.completes, sums);
    stage_(next_.present ? &next_.products : nullptr,
           current_.present ? &current_.gradients : nullptr, to_sum ? &sums : nullptr);
    if (current_.present && current_.completes) complete_block_ = current_.completes;
    previous_ = current_, current_ = next_;
    next_ = {};
  }
  void drain() noexcept {
    while (current_.present || previous_.present || complete_block_) stage();
  }

  // Sums the next panels of the block: at most its share, or with `all` the rest. With the last
  // panel the block is done.
  void take_panels(Block& block, bool all, StageSums<E>& sums) noexcept {
    const int64_t begin = block.done, of_value = block.d_value.end;
    const int64_t end = all ? block.panels : std::min(begin + block.share, block.panels);
    const auto range = [&](StageKeySums<E> sum, int64_t before, int64_t most) {
      sum.begin = std::clamp<int64_t>(begin - before, 0, most);
      sum.end = std::clamp<int64_t>(end - before, 0, most);
      return sum;
    };
    sums.d_value = range(block.d_value, 0, of_value);
    sums.d_key = range(block.d_key, of_value, block.panels - of_value);
    block.done = end;
    if (end == block.panels) complete_block_ = nullptr;
  }

  // The array of a tile in one of the two buffers, which blocks use in turn.
  template <class T>
  T* of_tile(const Place<T>& buffers, int64_t block, int64_t tile) const noexcept {
    return tiles_.at(buffers, (block & 1) * places_.tiles.count() + tile);
  }

  const Problem& p_;
  const WantedGradients& wanted_;
  const GradientTilePlaces<E>& places_;
  const RouteKernels<E>& route_;
  const GradientStage<E> stage_;
  ScoreTiles<E>& tiles_;
  GradientKeys<E>& keys_;
  GradientProducts<E>& products_;
  Block blocks_[3];                  // one is summed up, one at work, one multiplied
  Block* complete_block_ = nullptr;  // the block whose tiles have all been at work
  Item next_, current_, previous_;   // empty between walks
  int64_t nth_block_ = 0, nth_item_ = 0;
};

}  // namespace rapt
