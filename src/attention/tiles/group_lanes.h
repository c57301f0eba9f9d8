#pragma once
// The heads of a group whose queries fill the lanes of a tile (forward/grouped_heads.h): row r of
// the group is query r mod n of head r / n, where n = Problem::head_queries(). Hooks that read the
// head or positions run once per head. The code is in the header because it is a template over E.
#include <algorithm>

#include "attention/tiles/group_rows.h"
#include "attention/tiles/query_tile.h"
#include "base/rare.h"

namespace rapt {

template <class E>
struct GroupPlaces {
  Place<E> lanes;          // [block_keys][a head's queries, padded], or [state_rows][tile queries]
  Place<std::byte> query;  // [q_len][head_dim] of the inputs' dtype
  Place<std::byte> rows;   // [tile queries][value_dim or block_keys] of E or a smaller type

  void reserve(ScratchPlan<E>& plan) {
    const Problem& p = plan.problem;
    if (!rare(p.group_heads > 1)) return;
    const int64_t lane_count = plan.tiling.lanes, block_keys = plan.tiling.block_keys;
    const int64_t padded = (p.head_queries() + lane_count - 1) & -lane_count;
    plan.worker.place(lanes, {std::max<int64_t>(block_keys * padded,
                                                plan.kernels.normalizer.state_rows * plan.tile)});
    if (p.head_queries() == 1) return;
    plan.worker.place(query, {p.q_len, plan.stored_bytes(p.head_dim)});
    plan.worker.place(
        rows, {plan.tile, std::max(p.value_dim, block_keys) * static_cast<int64_t>(sizeof(E))});
  }
};

template <class E>
class GroupLanes {
 public:
  // `scratch`: the worker's.
  GroupLanes(const ForwardCall<E>& call, const GroupPlaces<E>& places, std::byte* scratch) noexcept
      : call_(call), p_(call.problem), places_(places), scratch_(scratch) {}

  bool used() const noexcept { return rare(p_.group_heads > 1); }
  // Selects a group: a head of the grouped call. `head` must outlive its use.
  void begin_head(const Head& head) noexcept { group_ = &head; }

  // Applies a score function to the tile's scores, head by head in a narrow tile.
  void apply(const QueryTile<E>& tile, const ScoreRef& score,
             const ScoreKernels<E>& kernel) const noexcept {
    const int64_t lane_count = call_.kernels.table.lanes;
    const int64_t keys = tile.hooks.keys, queries = tile.queries;
    for_each_head(tile.positions, [&](int64_t lane, const Head& head, Positions at) {
      Tile<E> narrow = tile.hooks;
      narrow.scores = places_.lanes.in(scratch_);
      narrow.queries = (at.count + lane_count - 1) & -lane_count;
      narrow.query_positions = at;
      narrow.head = &head;
      E* const scores = tile.hooks.scores + lane;
      std::fill_n(narrow.scores, keys * narrow.queries, E(0));
      copy_lanes(scores, queries, keys, at.count, narrow.scores, narrow.queries);
      kernel.apply(score.object, narrow);
      copy_lanes(narrow.scores, narrow.queries, keys, at.count, scores, queries);
    });
  }

  // Begins the normaliser's state.
  void begin_state(const QueryTile<E>& tile) const noexcept {
    const NormalizerKernels<E>& normalizer = call_.kernels.normalizer;
    const int64_t rows = normalizer.state_rows, queries = tile.queries;
    E* const kept = places_.lanes.in(scratch_);
    Tile<E> of_head = tile.hooks;
    for_each_head(tile.positions, [&](int64_t lane, const Head& head, Positions at) {
      of_head.head = &head;
      normalizer.begin(call_.normalizer_object, of_head);
      for (int64_t r = 0; r < rows; ++r)
        std::copy_n(of_head.state + r * queries + lane, at.count, kept + r * queries + lane);
    });
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(kept + r * queries, tile.positions.count, of_head.state + r * queries);
  }

  // Transforms the group's rows `at`.
  void change_queries(const RowTransformer<E>& transformer, const RowsAt& from, Positions at,
                      const RowsAt& to) const noexcept {
    for_each_head(at, [&](int64_t lane, const Head& head, Positions queries) {
      const auto from_lane = [&](RowsAt rows) {
        rows.data += lane * rows.row_stride * size_of(rows.dtype);
        return rows;
      };
      transformer.change(
          from_lane(from), p_.rows.query_turns(), p_.rows.content_bias,
          {head.index, head.rank, queries.start, p_.turned(queries, head.q_len, head.k_len)},
          from_lane(to));
    });
  }

  // Copies the group's queries, whose first row begins at `first`, to dense rows.
  std::byte* gather_queries(const std::byte* first) const noexcept {
    std::byte* const dense = places_.query.in(scratch_);
    gather_rows(p_.query, first, {0, 1, p_.q_len}, p_.head_dim, dense);
    return dense;
  }
  // Room for dense rows of a tile: of its output, or of a block of keys.
  std::byte* dense_rows() const noexcept { return places_.rows.in(scratch_); }

 private:
  // Copies `count` lanes of `keys` scores. Most groups have one query per head: a call of memmove()
  // for each number would take longer than the score function.
  static void copy_lanes(const E* from, int64_t from_stride, int64_t keys, int64_t count, E* to,
                         int64_t to_stride) noexcept {
    if (count == 1) {
      for (int64_t j = 0; j < keys; ++j) to[j * to_stride] = from[j * from_stride];
      return;
    }
    for (int64_t j = 0; j < keys; ++j)
      std::copy_n(from + j * from_stride, count, to + j * to_stride);
  }

  // Calls visit(lane, head, queries) for each head of the rows: its first lane, and its queries.
  template <class Visit>
  void for_each_head(Positions rows, const Visit& visit) const noexcept {
    int64_t index[kMaxRank], leading[kMaxRank];
    const int last = p_.leading_rank - 1;
    std::copy_n(group_->index, p_.leading_rank, index);
    std::copy_n(p_.leading, p_.leading_rank, leading);
    leading[last] *= p_.group_heads;
    const int64_t queries = p_.head_queries();
    const Head head{index, p_.leading_rank, queries, group_->k_len, leading};
    for (int64_t lane = 0; lane < rows.count;) {
      const int64_t row = rows.start + lane, first = row % queries;
      const int64_t count = std::min(queries - first, rows.count - lane);
      index[last] = group_->index[last] * p_.group_heads + row / queries;
      visit(lane, head, Positions{first, 1, count});
      lane += count;
    }
  }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const GroupPlaces<E>& places_;
  std::byte* scratch_;
  const Head* group_ = nullptr;
};

}  // namespace rapt
