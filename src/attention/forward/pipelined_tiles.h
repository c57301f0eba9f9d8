#pragma once
// The software pipeline of the forward pass over the tiles and blocks of a work unit. An item is a
// tile with a block. A stage computes the scores of the next item, the weights of the current one,
// and the output of the previous one (Stage, kernel_table.h).
//
// Every item has the same bits in the pipeline as outside it (Forward::apply). An item is computed
// outside the pipeline, after all earlier items, if it has rows that need ExactRows, or values that
// are not finite together with masked-out pairs or a bias (-inf in it masks pairs out). The code is
// in the header because it is a template over E.
#include "attention/tiles/score_tiles.h"
#include "base/rare.h"

namespace rapt {

// Scratch of the pipeline; two buffers of what two successive items use at once.
template <class E>
struct PipelinePlaces {
  Place<E> scores;             // [block_keys][tile queries]
  Place<std::byte> rounded;    // [2][block_keys][tile queries] of the route's weights
  Place<E> block_max, factor;  // [2][tile queries]

  void reserve(ScratchPlan<E>& plan) {
    if (!rare(plan.kernels.stage != nullptr)) return;
    const int64_t keys = plan.tiling.block_keys;
    plan.worker.place(scores, {keys, plan.tile});
    plan.worker.place(rounded, {2, keys * plan.tile * plan.weight_bytes()});
    plan.worker.place(block_max, {2, plan.tile});
    plan.worker.place(factor, {2, plan.tile});
  }
};

template <class E>
class PipelinedTiles {
 public:
  PipelinedTiles(const ForwardCall<E>& call, const PipelinePlaces<E>& places,
                 ScoreTiles<E>& tiles) noexcept
      : call_(call), p_(call.problem), route_(call.kernels.route), places_(places), tiles_(tiles) {}

  bool used() const noexcept { return rare(call_.kernels.stage != nullptr); }

  // Adds weights times values of the key blocks within `within` to the outputs of the tiles.
  // apply_alone(tile, block, keys) adds an item outside the pipeline. Its scores have been
  // computed.
  template <class ApplyAlone>
  void run(QueryTile<E>* tiles, int64_t count, KeyRange within,
           const ApplyAlone& apply_alone) noexcept {
    Items items{};
    const auto visit = [&](QueryTile<E>& tile, KeyBlock& block) {
      const TileKeys keys = tiles_.keys_of(tile, block);
      if (keys.none()) return;
      if (!can_pipeline(tile, block, keys)) {
        drain(items);
        apply_alone(tile, block, tiles_.scores_of(tile, block));
        return;
      }
      Item& next = items.next;
      begin(next, items.buffer ^= 1, tile, block, keys.positions);
      stage(items, &next);
      tiles_.complete_scores(tile, keys, next.scores, next.block_max);
      next.hooks = tile.hooks;
      next.hooks.factor = next.factor;
      items.previous = items.current, items.current = next;
    };
    tiles_.for_each_tile_and_block(tiles, count, Values::load, within, visit,
                                   [&] { drain(items); });
    drain(items);
  }

 private:
  struct Item {
    QueryTile<E>* tile = nullptr;  // null: no item
    StageScores<E> score_stage;
    StageOutput<E> output;
    E *scores, *block_max, *factor;
    void* rounded;
    Tile<E> hooks;
  };
  // Of one run: a call without a pipeline does not pay for them.
  struct Items {
    Item next, current, previous;
    int buffer = 0;  // of the next item
  };

  bool can_pipeline(const QueryTile<E>& tile, KeyBlock& block,
                    const TileKeys& keys) const noexcept {
    if (tile.outside != 0 || block.key_outside.any() || block.value_outside.any()) return false;
    if (!keys.partial && !p_.has_bias) return true;
    return tiles_.blocks().finite(block);
  }

  void begin(Item& item, int buffer, QueryTile<E>& tile, const KeyBlock& block,
             Positions keys) const noexcept {
    item.tile = &tile;
    item.scores = tiles_.at(places_.scores);
    item.rounded = tiles_.at(places_.rounded, buffer);
    item.block_max = tiles_.at(places_.block_max, buffer);
    item.factor = tiles_.at(places_.factor, buffer);
    const int64_t first = keys.start - block.begin, element = route_.element_size;
    item.score_stage = {tile.query_t,          block.key + first * block.key_stride * element,
                        block.key_stride,      keys.count,
                        p_.head_dim,           tiles_.factor(),
                        tile.hooks.log2_units, item.scores,
                        item.block_max};
    item.output = {item.rounded,       block.value + first * block.value_stride * element,
                   block.value_stride, keys.count,
                   p_.value_dim,       nullptr,
                   tile.output_t};
  }

  // Computes the scores of the next item and the weights of the current one, and adds weights times
  // values of the previous one to the output of its tile.
  void stage(Items& items, const Item* next) const noexcept {
    Item &current = items.current, &previous = items.previous;
    StageWeights<E> weights{&current.hooks, tiles_.factor(), current.rounded};
    if (current.tile) current.hooks.zero = current.hooks.rescale = false;
    if (previous.tile) previous.output.rescale = previous.hooks.rescale ? previous.factor : nullptr;
    call_.kernels.stage(next ? &next->score_stage : nullptr, current.tile ? &weights : nullptr,
                        previous.tile ? &previous.output : nullptr);
  }
  void drain(Items& items) const noexcept {
    for (int i = 0; i < 2 && (items.current.tile || items.previous.tile); ++i) {
      stage(items, nullptr);
      items.previous = items.current;
      items.current.tile = nullptr;
    }
    items.previous.tile = nullptr;
  }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const RouteKernels<E>& route_;
  const PipelinePlaces<E>& places_;
  ScoreTiles<E>& tiles_;
};

}  // namespace rapt
