// The attention that each key receives, received[j] = sum_i weight(i, j): a second pass over the
// scores, with keys in the outer loop. A task owns a key block of one head and walks over all query
// tiles in order. So the sums do not depend on the number of threads. Keys that a cache has room
// for, but does not hold, receive 0.
#include "attention/forward/saved_state.h"

namespace rapt {
namespace {

// The number of tiles whose weights are summed in E before they are added to a sum in double. With
// one sum in E over a long sequence, the error would grow with its length.
constexpr int64_t kTilesPerSum = 64;

template <class E>
int64_t blocks_per_head(const PassInput<E>& in) {
  const Problem& p = in.call.problem;
  if (!p.query_starts) return in.call.tiling.blocks(p.k_len);
  return in.call.at(in.layout.block_starts)[p.sequences];
}

template <class E>
void add_up(const PassInput<E>& in, int worker, int64_t head, int64_t block_of_head) noexcept {
  const ForwardCall<E>& call = in.call;
  const Problem& p = call.problem;
  const Tiling& t = call.tiling;
  int64_t sequence = 0, nth = block_of_head;
  if (p.query_starts) {
    const int64_t* const starts = call.at(in.layout.block_starts);
    sequence = std::upper_bound(starts, starts + p.sequences, nth) - starts - 1;
    nth -= starts[sequence];
  }
  ScoreTiles<E> tiles(call, in.cancel, worker);
  tiles.begin_head(head, sequence);
  const Sequence& s = tiles.sequence();
  const Operand& out = call.outputs.received;
  const int64_t at = tiles.offset_of(out);
  const bool adds = call.captures.adds_received;
  const auto store = [&](int64_t j, double total) {
    E& received = *reinterpret_cast<E*>(out.at(at + (s.key_begin + j) * out.row_stride));
    received = static_cast<E>(adds ? received + total : total);
  };
  const int64_t begin = nth * t.block_keys, end = std::min(begin + t.block_keys, s.k_len);
  const int64_t room = p.pages.used() ? std::min(begin + t.block_keys, p.k_len) : end;
  for (int64_t j = std::max(begin, s.k_len); j < room && !adds; ++j) store(j, 0);
  if (begin >= s.k_len) return;
  const KeyBlock block = tiles.load_block(begin, end, Values::skip);
  E* const sums = tiles.at(in.layout.sums);
  double* const totals = tiles.at(in.layout.totals);
  std::fill_n(sums, (end - begin) * t.lanes, E(0));
  std::fill_n(totals, end - begin, 0.0);
  const auto add_to_totals = [&] {
    for (int64_t j = 0; j < end - begin; ++j)
      for (E* lane = sums + j * t.lanes; lane < sums + (j + 1) * t.lanes; ++lane)
        totals[j] += *lane, *lane = 0;
  };

  const int64_t widest = t.long_vectors * t.lanes;
  for (int64_t q = 0; q < s.q_len && !tiles.stopped(); q += widest) {
    if (q % (kTilesPerSum * widest) == 0) add_to_totals();
    const Positions queries{q, 1, std::min(widest, s.q_len - q)};
    if (!tiles.may_attend(queries, begin, end)) continue;
    QueryTile<E> tile;
    tiles.begin_tile(tile, queries, t.vectors(queries.count), 0);
    restore_state(in, tiles, tile);
    const TileKeys keys = tiles.scores_of(tile, block);
    if (keys.none()) continue;
    tiles.final_weights(tile, keys);
    call.kernels.table.captures.add_received(tile.hooks.scores, keys.positions.count, tile.queries,
                                             sums + (keys.positions.start - begin) * t.lanes);
  }

  add_to_totals();

  for (int64_t j = begin; j < end; ++j) store(j, totals[j - begin]);
}

}  // namespace

template <class E>
Pass<E> received_pass(const PassInput<E>& input) {
  if (!input.call.outputs.received.data) return {};
  return {input.call.problem.heads * blocks_per_head(input),
          [](const PassInput<E>& in, int64_t task, int worker) noexcept {
            const int64_t blocks = blocks_per_head(in);
            add_up(in, worker, task / blocks, task % blocks);
          }};
}

template Pass<float> received_pass(const PassInput<float>&);
template Pass<double> received_pass(const PassInput<double>&);

}  // namespace rapt
