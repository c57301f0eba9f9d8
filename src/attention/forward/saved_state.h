#pragma once
// The normaliser's state of all queries, which the first pass saves for those that follow. The code
// is in the header because it is a template over E.
#include "attention/forward/forward.h"
#include "attention/forward/forward_layout.h"

namespace rapt {

// Where a state row of the queries of the current head and sequence is saved.
template <class E>
E* saved_state(const PassInput<E>& in, const ScoreTiles<E>& tiles, int state_row) noexcept {
  const int64_t row = tiles.head() * in.call.kernels.normalizer.state_rows + state_row;
  return in.call.at(in.layout.saved_state, row) + tiles.sequence().query_begin;
}

// Gives a tile its saved state.
template <class E>
void restore_state(const PassInput<E>& in, const ScoreTiles<E>& tiles,
                   QueryTile<E>& tile) noexcept {
  const Positions& at = tile.positions;
  for (int r = 0; r < in.call.kernels.normalizer.state_rows; ++r) {
    const E* const saved = saved_state(in, tiles, r);
    E* const state = tile.hooks.state + r * tile.queries;
    for (int64_t i = 0; i < tile.queries; ++i)  // lanes beyond the last query repeat it
      state[i] = saved[at[std::min(i, at.count - 1)]];
  }
}

}  // namespace rapt
