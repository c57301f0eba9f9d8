#pragma once
// The tiles and blocks of a unit, three at a time: while the weights of one are made, the next is
// multiplied with its keys and the one before with its values (Stage, kernel_table.h). Every piece
// has the bits that it has on its own (Forward::apply), so that what does not go with others goes
// alone: tiles of rows that the route leaves out (exact_rows.h), and excluded pairs of values that
// are not finite.
#include "attention/tiles/score_tiles.h"

namespace rapt {

template <class E>
class PipelinedTiles {
 public:
  PipelinedTiles(const ForwardCall<E>& call, ScoreTiles<E>& tiles) noexcept
      : call_(call), p_(call.problem), route_(call.kernels.route), tiles_(tiles) {}

  bool used() const noexcept { return call_.kernels.stage != nullptr; }

  // Adds all blocks to the tiles' outputs. output_of(tile): where one is; alone(tile, block,
  // first): adds one whose scores are there.
  template <class OutputOf, class Alone>
  void run(QueryTile<E>* tiles, int64_t count, const OutputOf& output_of,
           const Alone& alone) noexcept {
    next_ = now_ = before_ = {};
    const auto visit = [&](QueryTile<E>& tile, KeyBlock& block) {
      const auto tile_keys = tiles_.keys_of(tile, block);
      if (tile_keys.keys.count == 0) return;
      if (!goes_with_others(tile, block, tile_keys)) {
        drain();
        const int64_t first = tiles_.scores_of(tile, block);
        alone(tile, block, first);
        return;
      }
      begin(next_, tile, block, tile_keys, output_of(tile));
      stage(&next_);
      tiles_.take_scores(tile, tile_keys, next_.scores, next_.block_max);
      next_.hooks = tile.hooks;
      next_.hooks.block_max = next_.block_max;
      next_.hooks.factor = next_.factor;
      before_ = now_, now_ = next_;
    };
    tiles_.for_each_tile_and_block(tiles, count, Values::load, visit, [&] { drain(); });
    drain();
  }

 private:
  struct Item {
    QueryTile<E>* tile = nullptr;  // null: there is none
    StageScores<E> multiplied;
    StageOutput<E> output;
    E *scores, *block_max, *factor;
    void* rounded;
    Tile<E> hooks;
  };

  bool goes_with_others(const QueryTile<E>& tile, KeyBlock& block,
                        const TileKeys& tile_keys) const noexcept {
    if (tile.outside != 0 || block.key_outside.any() || block.value_outside.any()) return false;
    if (!tile_keys.partial && !p_.has_bias) return true;
    return tiles_.finite(block);
  }

  void begin(Item& item, QueryTile<E>& tile, const KeyBlock& block, const TileKeys& tile_keys,
             E* output) noexcept {
    nth_ ^= 1;
    const PipelineScratch& places = call_.layout.pipeline;
    item.tile = &tile;
    item.scores = tiles_.template scratch<E>(places.scores);
    item.rounded = tiles_.template scratch<std::byte>(places.rounded[nth_]);
    item.block_max = tiles_.template scratch<E>(places.block_max[nth_]);
    item.factor = tiles_.template scratch<E>(places.factor[nth_]);
    const int64_t first = tile_keys.keys.start - block.begin, element = route_.element_size;
    item.multiplied = {tile.query_t,          block.key + first * block.key_stride * element,
                       block.key_stride,      tile_keys.keys.count,
                       p_.head_dim,           tiles_.factor(),
                       tile.hooks.log2_units, item.scores,
                       item.block_max};
    item.output = {item.rounded,
                   block.value + first * block.value_stride * element,
                   block.value_stride,
                   tile_keys.keys.count,
                   p_.value_dim,
                   nullptr,
                   output};
  }

  // Multiplies the next one, makes the weights of this one, and adds the one before to its output.
  void stage(const Item* next) noexcept {
    StageWeights<E> weights{&now_.hooks, tiles_.factor(), now_.rounded};
    if (now_.tile) now_.hooks.zero = now_.hooks.rescale = false;
    if (before_.tile) before_.output.rescale = before_.hooks.rescale ? before_.factor : nullptr;
    call_.kernels.stage(next ? &next->multiplied : nullptr, now_.tile ? &weights : nullptr,
                        before_.tile ? &before_.output : nullptr);
  }
  void drain() noexcept {
    for (int i = 0; i < 2 && (now_.tile || before_.tile); ++i) {
      stage(nullptr);
      before_ = now_;
      now_.tile = nullptr;
    }
    before_.tile = nullptr;
  }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const RouteKernels<E>& route_;
  ScoreTiles<E>& tiles_;
  Item next_, now_, before_;  // empty between runs
  int nth_ = 0;
};

}  // namespace rapt
