#pragma once
// The heads of a group that fill the lanes of a tile (forward/grouped_heads.h), for hooks that read
// the head or positions. Such a hook runs once per head, and only the head's lane is kept. The code
// is in the header because it is a template over E.
#include <algorithm>

#include "attention/tiles/query_tile.h"

namespace rapt {

template <class E>
struct GroupPlaces {
  Place<E> given, changed;  // [block_keys][tile queries]

  void reserve(ScratchPlan<E>& plan) {
    if (plan.problem.group_heads == 1) return;
    const int64_t most =
        std::max<int64_t>(plan.tiling.block_keys, plan.kernels.normalizer.state_rows);
    plan.worker.place(given, {most, plan.tile});
    plan.worker.place(changed, {most, plan.tile});
  }
};

template <class E>
class GroupLanes {
 public:
  // `scratch`: the worker's.
  GroupLanes(const ForwardCall<E>& call, const GroupPlaces<E>& places, std::byte* scratch) noexcept
      : call_(call), p_(call.problem), places_(places), scratch_(scratch) {}

  bool used() const noexcept { return p_.group_heads > 1; }
  // Selects a group: a head of the grouped call.
  void begin_head(const int64_t* index) noexcept { group_ = index; }

  // Applies a score function to the tile's scores.
  void apply(const QueryTile<E>& tile, const ScoreRef& score,
             const ScoreKernels<E>& kernel) const noexcept {
    E* const scores = tile.hooks.scores;
    E* const given = places_.given.in(scratch_);
    E* const changed = places_.changed.in(scratch_);
    const int64_t count = tile.hooks.keys * tile.queries;
    std::copy_n(scores, count, given);
    for_each_head(tile, [&](int64_t lane, Tile<E>& of_head) {
      std::copy_n(given, count, changed);
      of_head.scores = changed;
      kernel.apply(score.object, of_head);
      for (int64_t i = lane; i < count; i += tile.queries) scores[i] = changed[i];
    });
  }

  // Begins the normaliser's state.
  void begin_state(const QueryTile<E>& tile) const noexcept {
    const NormalizerKernels<E>& normalizer = call_.kernels.normalizer;
    E* const state = tile.hooks.state;
    E* const kept = places_.given.in(scratch_);
    const int64_t count = normalizer.state_rows * tile.queries;
    for_each_head(tile, [&](int64_t lane, Tile<E>& of_head) {
      normalizer.begin(call_.normalizer_object, of_head);
      for (int64_t i = lane; i < count; i += tile.queries) kept[i] = state[i];
    });
    for (int64_t lane = 0; lane < tile.positions.count; ++lane)
      for (int64_t i = lane; i < count; i += tile.queries) state[i] = kept[i];
  }

 private:
  // Calls run(lane, tile) for each head. The tile of the argument has this head, and its lane the
  // head's only position; its other lanes mean nothing.
  template <class Run>
  void for_each_head(const QueryTile<E>& tile, const Run& run) const noexcept {
    int64_t index[kMaxRank], leading[kMaxRank];
    const int last = p_.leading_rank - 1;
    std::copy_n(group_, p_.leading_rank, index);
    std::copy_n(p_.leading, p_.leading_rank, leading);
    leading[last] *= p_.group_heads;
    const Head head{index, p_.leading_rank, 1, tile.hooks.head->k_len, leading};
    Tile<E> of_head = tile.hooks;
    of_head.head = &head;
    for (int64_t lane = 0; lane < tile.positions.count; ++lane) {
      index[last] = group_[last] * p_.group_heads + tile.positions[lane];
      of_head.query_positions = {-lane, 1, lane + 1};
      run(lane, of_head);
    }
  }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const GroupPlaces<E>& places_;
  std::byte* scratch_;
  const int64_t* group_ = nullptr;
};

}  // namespace rapt
