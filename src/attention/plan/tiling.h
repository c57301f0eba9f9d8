#pragma once
// How a problem is cut into units, tiles and blocks.
//
// The length of a block of keys depends on dtype, kernel and head sizes only, and blocks are
// anchored at key 0 of their sequence, so that a row's bits depend neither on q_len nor on k_len.
// Widths of tiles and units may vary freely: no operation crosses lanes.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/call/captures.h"
#include "attention/plan/variant_kernels.h"

namespace rapt {

// Rounded up. Most problems are small, and a division takes as long as ten additions.
inline int64_t ceil_div(int64_t a, int64_t b) { return a <= b ? a > 0 : a / b + (a % b != 0); }

inline constexpr int kMostBlockKeys = 128;
inline constexpr int kMostBlocksAtWork = 16;

// Sparse normalisers: scores per query that are kept at first, sixteen blocks of keys; and rows of
// values that are converted at once, as many as are one sum where they need not be (sparse.simd.h).
inline constexpr int64_t kShortList = 16 * kMostBlockKeys;
inline constexpr int kPackedValues = 128;
// From one list to the next: a vector of padding lies behind each.
inline int64_t list_stride(int64_t capacity, int lanes) {
  return (capacity + 2 * lanes - 1) & -int64_t{lanes};
}

// A list of at most so many largest scores stays sorted at all times: shifting it costs less than
// cutting and sorting a longer one (bench_ratios, top-16 and top-64).
inline constexpr int64_t kMostSorted = 32;

struct Tiling {
  int lanes = 1;         // a power of two
  int64_t grain = 1;     // queries of which a tile has a multiple: lanes times the route's grain
  int max_vectors = 1;   // of a tile
  int long_vectors = 1;  // of a tile of a long sequence
  int step = 1;  // of the route: keys of a tile begin at multiples of it, from the block's begin
  int64_t unit_queries = 1;    // queries that share one pass over the keys of one head
  int64_t block_keys = 1;      // at most kMostBlockKeys; of the forward pass, a power of two
  int64_t units_per_head = 0;  // summed over the sequences
  int64_t units_per_task = 1;  // short sequences share a task
  int64_t heads_in_turn = 1;   // neighbours that share the rows of a bias: each in turn at a unit
  int workers = 1;             // that are worth their wake-up, at most what the executor has
  bool to_executor = false;    // is there enough work to trouble a caller's executor?
  bool packs_ahead = false;    // are keys and values packed once, before all tiles?
  int64_t blocks_at_work = 1;  // that a tile meets one after the other, if so

  int64_t blocks(int64_t k_len) const { return ceil_div(k_len, block_keys); }
  int64_t units(int64_t q_len) const { return ceil_div(q_len, unit_queries); }
  int vectors_of_grain() const { return static_cast<int>(grain) / lanes; }
  // Whole grains, and vectors, that hold so many queries.
  int64_t grains(int64_t rows) const {
    return (rows + grain - 1) >> __builtin_ctzll(static_cast<uint64_t>(grain));
  }
  int64_t padded(int64_t rows) const { return (rows + grain - 1) & -grain; }
  int vectors(int64_t rows) const { return static_cast<int>(padded(rows) / lanes); }

  // How `rows` queries are cut into tiles: as few as possible, of widths that differ by a grain at
  // most.
  struct Cut {
    int64_t tiles = 0;
    int narrow = 0;    // vectors of a tile
    int64_t wide = 0;  // the first so many tiles have `more` more
    int more = 1;
    int vectors_of(int64_t tile) const { return narrow + (tile < wide ? more : 0); }
  };
  Cut cut(int64_t rows) const {
    const int more = vectors_of_grain(), most = max_vectors / more;
    const auto count = static_cast<int>(grains(rows));
    if (count <= most) return {count > 0, count * more, 0, more};
    const int widest = count <= 2 * most ? most : long_vectors / more;
    const int tiles = (count + widest - 1) / widest;
    return {tiles, count / tiles * more, count % tiles, more};
  }
};

// Multiplications and additions, masks not counted.
double work_of(const Problem& problem);

// How many threads so much work would pay for.
double worthwhile_workers(double work);

// Rows of cells of a map that a task computes: enough of them for a tile, if they are smaller.
int64_t map_rows_per_task(const Problem& problem, const RequestedMap& map, const Tiling& tiling);

// The workers of an executor.
struct Workers {
  int most = 1;
  bool can_be_fewer = false;  // may a run be limited to some of them? Else it is all or one.
};

template <class E>
Tiling tiling_of(const Problem& problem, const Kernels<E>& kernels, double work,
                 const Workers& available, Memory memory);

// Has the route operands of its own, which are dear to make?
template <class E>
bool packs_rows(const RouteKernels<E>& route) {
  return route.step > 2;
}

// `dims`, rounded up to the step of the route: the stride of packed rows.
inline int64_t packed_stride(int64_t dims, int step) { return (dims + step - 1) & -int64_t{step}; }

// Rows of keys, or of values, that are packed for the whole call: every sequence begins at a whole
// step of the route.
inline int64_t packed_rows(const Problem& p, int64_t step) {
  return (p.k_len / step + p.sequences) * step;
}
// The place of the first row of a sequence that begins at row `begin`.
inline int64_t packed_begin(int64_t begin, int64_t sequence, int64_t step) {
  return (begin / step + sequence) * step;
}

// Are rows that pack_keys would prepare read where they lie in the caller's memory?
template <class E>
bool rows_in_place(const Operand& rows, int64_t dims, const RouteKernels<E>& route) {
  return route.keys_in_place && rows.dim_stride == 1 && (dims & (route.step - 1)) == 0;
}
// The same of keys, and of values as the output takes them.
template <class E>
bool keys_in_place(const Problem& p, const RouteKernels<E>& route) {
  return rows_in_place(p.key, p.head_dim, route);
}
template <class E>
bool values_in_place(const Problem& p, const RouteKernels<E>& route) {
  return route.values_in_place && p.value.dim_stride == 1;
}

}  // namespace rapt
