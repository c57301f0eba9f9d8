#pragma once
// How a problem is cut into work units, query tiles and key blocks.
//
// This room, src/attention/plan, plans calls. In: a checked call and the kernel table. Out: the
// route, the tiling, the number of threads and what sizes of scratch depend on. It may use
// src/attention/call, src/base and src/threads.
//
// The length of a key block depends on dtype, route and head sizes only, and blocks are anchored at
// key 0 of their sequence, so that a row's bits depend neither on q_len nor on k_len. The widths of
// query tiles and work units may vary freely, because no operation crosses lanes.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/call/captures.h"
#include "attention/plan/variant_kernels.h"
#include "base/rare.h"
#include "threads/workers.h"

namespace rapt {

// a / b, rounded up. Most problems are small, and a division takes as long as ten additions.
inline int64_t ceil_div(int64_t a, int64_t b) { return a <= b ? a > 0 : a / b + (a % b != 0); }

inline constexpr int kMostBlockKeys = 128;
inline constexpr int kMostBlocksAtWork = 16;

// Rows are summed in chunks of keys, counted from key 0 of their sequence, if their normaliser can
// merge them (forward/chunks.h). Every call does so, so that the bits of a row do not depend on how
// many threads share its chunks. Merging two chunks passes once over the output: 3 reads and writes
// for the 1,024 multiplications of each of its elements.
inline constexpr int64_t kChunkKeys = 1024;
static_assert(kChunkKeys % kMostBlockKeys == 0);

// Sparse normalisers: the first capacity of a query's list, sixteen key blocks; and the number of
// value rows that are converted at once, which is the length of one sum (sparse.simd.h).
inline constexpr int64_t kShortList = 16 * kMostBlockKeys;
inline constexpr int kPackedValues = 128;
// The distance between two lists, each of which is padded by a vector.
inline int64_t list_stride(int64_t capacity, int lanes) {
  return (capacity + 2 * lanes - 1) & -int64_t{lanes};
}

// A list of at most this many largest scores stays sorted at all times: shifting its entries costs
// less than cutting and sorting a longer list (bench_ratios, top-16 and top-64).
inline constexpr int64_t kMostSorted = 32;

struct Tiling {
  int lanes = 1;  // a power of two
  // The number of queries of a tile is a multiple of it: lanes times the route's grain, a power of
  // two.
  int64_t grain = 1;
  int max_vectors = 1;   // of a query tile
  int long_vectors = 1;  // of a query tile of a long sequence
  int step = 1;  // of the route: keys of a score tile begin at multiples of it within their block
  // Of a query tile where masks treat queries in groups; 0: as few tiles as possible. Of the first
  // forward pass alone: sums over queries depend on the width of tiles.
  int group_vectors = 0;
  int64_t unit_queries = 1;    // queries that share one pass over the keys of one head
  int64_t block_keys = 1;      // at most kMostBlockKeys; of the forward pass, a power of two
  int64_t units_per_head = 0;  // summed over the sequences
  int64_t units_per_task = 1;  // short sequences share a task
  int64_t heads_in_turn = 1;   // neighbouring heads that share bias rows take turns, unit by unit
  int workers = 1;             // threads that pay for their wake-up, at most those of the executor
  bool to_executor = false;    // there is enough work for a caller's executor
  bool packs_ahead = false;    // keys and values are packed once, before all tiles
  int64_t blocks_at_work = 1;  // packed blocks that a query tile processes before the next tile
  // Of the forward pass: the chunks of the longest row; 1: rows are not summed in chunks. And the
  // chunks of a unit that one task sums; all of them: units are not split.
  int64_t chunks = 1, chunks_per_task = 1;

  bool splits() const { return chunks_per_task < chunks; }
  int64_t parts() const { return ceil_div(chunks, chunks_per_task); }

  int64_t blocks(int64_t k_len) const { return ceil_div(k_len, block_keys); }
  int64_t units(int64_t q_len) const { return ceil_div(q_len, unit_queries); }
  int vectors_of_grain() const { return static_cast<int>(grain) >> __builtin_ctz(lanes); }
  // The number of grains, and of vectors, that hold this many queries.
  int64_t grains(int64_t rows) const {
    return (rows + grain - 1) >> __builtin_ctzll(static_cast<uint64_t>(grain));
  }
  int64_t padded(int64_t rows) const { return (rows + grain - 1) & -grain; }
  int vectors(int64_t rows) const { return static_cast<int>(padded(rows) >> __builtin_ctz(lanes)); }

  // Cuts `rows` queries into as few tiles as possible, whose widths differ by at most one grain; or
  // into tiles of group_vectors, of which the last may be narrower.
  struct Cut {
    int64_t tiles = 0;
    int narrow = 0;    // vectors of a tile
    int64_t wide = 0;  // the first `wide` tiles have `more` more vectors
    int more = 1;
    int vectors_of(int64_t tile) const { return narrow + (tile < wide ? more : 0); }
  };
  Cut cut(int64_t rows) const {
    // Small calls cut thrice; a division takes as long as ten additions.
    const int more = vectors_of_grain(), most = max_vectors >> __builtin_ctz(more);
    const auto count = static_cast<int>(grains(rows));
    if (rare(group_vectors > 0) && count > 0) {
      const int whole = (count - 1) / (group_vectors / more);
      const int last = count * more - whole * group_vectors;
      return {whole + 1, last, whole, group_vectors - last};
    }
    if (!rare(count > most)) return {count > 0, count * more, 0, more};
    const int widest = count <= 2 * most ? most : long_vectors / more;
    const int tiles = (count + widest - 1) / widest;
    return {tiles, count / tiles * more, count % tiles, more};
  }

  // Calls visit(n, queries, vectors, offset) for the tiles of a work unit: the nth tile, its
  // queries, its width, and the place of its first query in the work unit's scratch. Returns the
  // number of tiles.
  template <class Visit>
  int64_t for_each_tile(const Positions& unit, const Visit& visit) const {
    const Cut c = cut(unit.count);
    for (int64_t i = 0, offset = 0; i < c.tiles; ++i) {
      const int vectors = c.vectors_of(i);
      const int64_t end = std::min<int64_t>(offset + vectors * lanes, unit.count);
      visit(i, unit.part(offset, end), vectors, offset);
      offset = end;
    }
    return c.tiles;
  }
};

// Multiplications and additions of a call; masks are not counted.
double work_of(const Problem& problem);

// Rows of map cells that a task computes: enough to fill a query tile, where a row has fewer
// queries.
int64_t map_rows_per_task(const Problem& problem, const RequestedMap& map, const Tiling& tiling);

// The largest group of queries that a mask of the call has (Mask::query_group()); 1: none.
int64_t query_group_of(const MaskList& masks);

// The vectors of a tile that does not straddle groups of queries: the usual width if it fits, or
// else the widest that does; 0: none pays. A tile of half the usual width reads its keys twice as
// often, and one that straddles two groups computes up to twice as many pairs.
int vectors_of_group(const Tiling& tiling, int64_t query_group);

// A tiling with the members that follow from the kernels alone; the others are not set.
template <class E>
Tiling tiling_of_products(const Kernels<E>& kernels) {
  const RouteKernels<E>& route = kernels.route;
  Tiling t;
  t.lanes = kernels.table.lanes;
  t.grain = int64_t{t.lanes} * route.grain;
  t.max_vectors = route.widest();
  t.long_vectors = route.long_vectors;
  t.step = route.step;
  return t;
}

// The longest sequence of a call, by queries or by keys; `whole`: of a call that is not packed.
inline int64_t longest_sequence(const Problem& p, int64_t Sequence::*length, int64_t whole) {
  if (!rare(p.query_starts != nullptr)) return whole;
  int64_t most = 0;
  for (int64_t s = 0; s < p.sequences; ++s) most = std::max(most, p.sequence(s).*length);
  return most;
}

// The chunks of the longest row of a forward call; 1: its rows are not summed in chunks.
template <class E>
int64_t chunks_of_rows(const Problem& p, const NormalizerKernels<E>& normalizer) {
  if (!normalizer.merge) return 1;
  return std::max<int64_t>(1, ceil_div(longest_sequence(p, &Sequence::k_len, p.k_len), kChunkKeys));
}

// Whether threads may share the chunks of a row. One thread lists the largest scores of a row and
// keeps the scores of a few queries, and sums of all chunks take memory.
inline bool may_share_rows(const CheckedCall& call) {
  return call.options.top_k == 0 && !wants_weights_of_few(call) &&
         call.context.memory == Memory::automatic;
}

// The tiling of a forward call.
template <class E>
Tiling tiling_of(const Problem& problem, const Kernels<E>& kernels, const Workers& workers,
                 Memory memory, bool shares_rows, const MaskList& masks);

// Whether the route packs its operands at a cost that is worth saving.
template <class E>
bool packs_rows(const RouteKernels<E>& route) {
  return route.step > 2;
}

// The stride of packed rows: `dims`, rounded up to the step of the route.
inline int64_t packed_stride(int64_t dims, int step) { return (dims + step - 1) & -int64_t{step}; }

// The number of packed rows of keys, or of values, of a call: every sequence begins at a multiple
// of the route's step.
inline int64_t packed_rows(const Problem& p, int64_t step) {
  return (p.k_len / step + p.sequences) * step;
}
// The packed row at which a sequence begins that begins at row `begin` of the tensor.
inline int64_t packed_begin(int64_t begin, int64_t sequence, int64_t step) {
  return (begin / step + sequence) * step;
}

// Whether rows lie far apart, as those of one head do among the heads of a projection. A block of
// them shares few sets of the L1, and each row has a page of its own. Rows 1 KiB apart begin in 4
// of the 64 sets of an L1. The backward pass packs such rows, the forward pass does not
// (docs/decisions/units_in_the_backward_pass.md).
inline bool far_apart(int64_t row_stride, DType dtype, int64_t dims) {
  return row_stride > 4 * dims && row_stride * size_of(dtype) >= 1024;
}
inline bool far_apart(const Operand& rows, int64_t dims) {
  return far_apart(rows.row_stride, rows.dtype, dims);
}

// Whether the products read these rows in the caller's memory, without packing.
template <class E>
bool rows_in_place(const Operand& rows, int64_t dims, const RouteKernels<E>& route) {
  return route.keys_in_place && rows.dim_stride == 1 && (dims & (route.step - 1)) == 0;
}
// The same for keys, and for values as the output product reads them.
template <class E>
bool keys_in_place(const Problem& p, const RouteKernels<E>& route) {
  return rows_in_place(p.key, p.head_dim, route);
}
template <class E>
bool values_in_place(const Problem& p, const RouteKernels<E>& route) {
  return route.values_in_place && p.value.dim_stride == 1;
}

}  // namespace rapt
