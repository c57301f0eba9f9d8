#pragma once
// The blocks of a walk of the backward pass, three at a time: while the weights of one and the
// gradients of its scores are made, the next is multiplied, and the one before is summed up
// (GradientStage, kernel_table.h). A unit of a route with stages is one tile.
//
// Every block has the bits that it has on its own (GradientTiles::walk_block), and sums take blocks
// in their order, so that what does not go with others goes alone: rows that the route leaves out
// (exact_rows.h), and excluded pairs of rows that are not finite.
#include "attention/gradient_products.h"

namespace rapt {

template <class E>
class StagedGradients {
 public:
  StagedGradients(const BackwardCall<E>& call, ScoreTiles<E>& tiles, GradientKeys<E>& keys,
                  GradientProducts<E>& products) noexcept
      : p_(call.problem()),
        wanted_(call.wanted),
        layout_(call.layout),
        stage_(call.scores.kernels.gradient_stage),
        tiles_(tiles),
        keys_(keys),
        products_(products) {}

  // Does a walk go in stages? Where it needs no gradients of scores, there is less to overlap.
  bool takes(const QueryUnit<E>& unit, Sides sides) const noexcept {
    return stage_ && unit.tile_count == 1 && (unit.d_query_t || (wanted_.key && sides.keys));
  }

  // Adds all loaded blocks to the sums. alone(keys): adds one on its own.
  template <class Alone>
  void walk(QueryUnit<E>& unit, const KeySums<E>& sums, Sides sides, const Alone& alone) noexcept {
    auto& tile = *tiles_.template scratch<QueryTile<E>>(layout_.tiles);
    keys_.for_each_block(unit.range, [&](Positions keys) {
      auto* const bits = tiles_.template scratch<uint64_t>(layout_.staged.bits[nth_ ^ 1]);
      if (tiles_.see(tile, keys, bits) == Cover::none) return;
      if (!goes_with_others(unit, tile, keys, sides)) {
        drain();
        alone(keys);
        return;
      }
      begin(unit, tile, keys, bits, sums, sides);
      stage();
      before_ = now_, now_ = next_;
      next_.there = false;
    });
    drain();
  }

 private:
  struct Item {
    bool there = false;
    StageProducts<E> products;
    StageGradients<E> gradients;
    StageSums<E> sums;
  };

  bool goes_with_others(QueryUnit<E>& unit, const QueryTile<E>& tile, Positions keys,
                        Sides sides) noexcept {
    const KeyBlock block = keys_.block_of(keys);
    if ((tile.outside | tile.d_output_outside) != 0 || block.key_outside.any() ||
        block.value_outside.any())
      return false;
    return !tiles_.partial() || products_.finite(unit, keys, sides);
  }

  // The tile and the block as the next item. `bits` [keys]: which pairs are allowed, if some are
  // excluded.
  void begin(const QueryUnit<E>& unit, const QueryTile<E>& tile, Positions keys, uint64_t* bits,
             const KeySums<E>& sums, Sides sides) noexcept {
    nth_ ^= 1;
    const StagedGradientScratch& places = layout_.staged;
    const auto scratch = [&](const size_t(&place)[2]) {
      return tiles_.template scratch<std::byte>(place[nth_]);
    };
    const int64_t queries = tile.queries, count = tile.positions.count, n = keys.count;
    // Lanes beyond the last query have queries of 0, but 0 times an infinite key is NaN.
    if (!tiles_.partial() && count < queries) std::fill_n(bits, n, low_bits(count));
    const bool value = wanted_.value && sides.keys, key = wanted_.key && sides.keys;
    auto* const scores = reinterpret_cast<E*>(scratch(places.scores));
    auto* const d_weights = reinterpret_cast<E*>(scratch(places.d_weights));
    void* const weights = value ? scratch(places.weights_of_keys) : nullptr;
    void* const d_scores = key ? scratch(places.d_scores_of_keys) : nullptr;
    void* const of_query = unit.d_query_t ? scratch(places.d_scores_of_query) : nullptr;
    const KeyBlock block = keys_.block_of(keys);
    const Rows values = keys_.values(keys.start), summed = keys_.summed_keys(keys.start);

    next_.there = true;
    next_.products = {
        {tile.query_t, block.key, block.key_stride, n, p_.head_dim, queries, scores},
        {unit.d_output_t, values.data, values.stride, n, p_.value_dim, queries, d_weights}};
    next_.gradients = {scores,
                       d_weights,
                       tiles_.factor(),
                       unit.statistic,
                       unit.delta,
                       tiles_.partial() || count < queries ? bits : nullptr,
                       n,
                       queries,
                       weights,
                       d_scores,
                       of_query};
    const int64_t at = keys.start - sums.begin;
    const auto sum_of = [&](const void* rounded, const Rows& rows, int64_t dims, E* gradient,
                            int64_t stride) -> StageKeySum<E> {
      if (!rounded) return {};
      return {{rounded, queries, rows.data, rows.stride, count, nullptr},
              n,
              dims,
              gradient + at * stride,
              stride};
    };
    next_.sums = {
        {of_query, summed.data, summed.stride, n, p_.head_dim, queries, nullptr, unit.content_sums},
        sum_of(weights, unit.d_output_rows, p_.value_dim, sums.d_value, sums.d_value_stride),
        sum_of(d_scores, unit.query_rows, p_.head_dim, sums.d_key, sums.d_key_stride)};
  }

  // Multiplies the next item, makes the operands of this one, and sums up the one before.
  void stage() noexcept {
    stage_(next_.there ? &next_.products : nullptr, now_.there ? &now_.gradients : nullptr,
           before_.there ? &before_.sums : nullptr);
  }
  void drain() noexcept {
    for (int i = 0; i < 2 && (now_.there || before_.there); ++i) {
      stage();
      before_ = now_;
      now_.there = false;
    }
    before_.there = false;
  }

  const Problem& p_;
  const WantedGradients& wanted_;
  const BackwardLayout& layout_;
  const GradientStage<E> stage_;
  ScoreTiles<E>& tiles_;
  GradientKeys<E>& keys_;
  GradientProducts<E>& products_;
  Item next_, now_, before_;
  int nth_ = 0;
};

}  // namespace rapt
