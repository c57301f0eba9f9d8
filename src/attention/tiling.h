#pragma once
// How a problem is cut into units, tiles and blocks, and how scratch memory is laid out.
//
// The length of a block of keys depends on dtype, kernel and head sizes only, and blocks are
// anchored at key 0 of their sequence, so that a row's bits depend neither on q_len nor on k_len.
// Widths of tiles and units may vary freely: no operation crosses lanes.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/captures.h"
#include "attention/relative.h"
#include "attention/scratch_places.h"
#include "kernels/kernel_table.h"
#include "kernels/sieve.h"

namespace rapt {

// The kernels of a call.
template <class E>
struct Kernels {
  const KernelTable<E>& table;
  const RouteKernels<E>& route;
  const NormalizerKernels<E>& normalizer;
  const SieveKernels* sieve = nullptr;  // null: all scores are computed
  // Null: products and vector work take turns.
  Stage<E> stage = nullptr;                   // of the forward pass
  GradientStage<E> gradient_stage = nullptr;  // of the backward pass
};

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

// Largest scores of a row, at most so many: their list is sorted at all times. To shift it costs
// less than to cut and sort a longer one (bench_ratios, top-16 and top-64).
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

// What exact_rows.h needs of a worker.
struct ExactScratch {
  size_t query_t = 0;  // [dims][tile queries] E
  size_t rows = 0;     // [block_keys or tile queries][dims] E
  size_t scores = 0;   // [block_keys][tile queries] E

  ExactScratch() = default;
  template <class E>
  ExactScratch(const Problem& p, const RouteKernels<E>& route, int64_t block_keys, int64_t queries,
               ScratchPlaces& places) {
    const bool needed = route.find_outside != nullptr;
    const int64_t dims = std::max(p.head_dim, p.value_dim);
    query_t = places.place(needed, {dims, queries}, sizeof(E));
    rows = places.place(needed, {std::max(block_keys, queries), dims}, sizeof(E));
    scores = places.place(needed, {block_keys, queries}, sizeof(E));
  }
};

// What staged_tiles.h needs of a worker.
struct StagedScratch {
  size_t scores = 0;         // [block_keys][tile queries] E
  size_t rounded[2] = {};    // the same, of the route's weights
  size_t block_max[2] = {};  // [tile queries] E
  size_t factor[2] = {};     // the same

  StagedScratch() = default;
  template <class E>
  StagedScratch(const Kernels<E>& kernels, int64_t block_keys, int64_t queries,
                ScratchPlaces& places) {
    const bool needed = kernels.stage != nullptr;
    scores = places.place(needed, {block_keys, queries}, sizeof(E));
    for (int i = 0; i < 2; ++i) {
      rounded[i] = places.place(needed, {block_keys, queries},
                                static_cast<size_t>(kernels.route.weight_size));
      block_max[i] = places.place(needed, {queries}, sizeof(E));
      factor[i] = places.place(needed, {queries}, sizeof(E));
    }
  }
};

// What top_scores.h needs of a worker: per query, a list of the largest scores.
struct TopScratch {
  bool sorted = false;   // lists that are sorted at all times; else they are long ones
  int64_t capacity = 0;  // of a long list
  size_t scores = 0;     // sorted: [tiles][top_k][queries] E; long: [tiles][queries][list_stride] E
  size_t keys = 0;       // the same; sorted: as the bits of an E; long: int32
  // Of long lists only.
  size_t counts = 0;      // [tiles][queries] int32
  size_t bounds = 0;      // [tiles][queries] E
  size_t spare = 0;       // [top_k] E, where one list is sorted
  size_t spare_keys = 0;  // the same, int32

  TopScratch() = default;
  // `keys`: the most that a query can attend to.
  template <class E>
  TopScratch(const Kernels<E>& kernels, int64_t top_k, int64_t keys, int64_t queries,
             ScratchPlaces& places)
      : sorted(top_k <= kMostSorted), capacity(sorted ? 0 : std::min(2 * top_k, keys)) {
    const bool needed = top_k > 0, spread = needed && !sorted;
    const int64_t list = sorted ? top_k : list_stride(capacity, kernels.table.lanes);
    scores = places.place(needed, {queries, list}, sizeof(E));
    this->keys = places.place(needed, {queries, list}, sorted ? sizeof(E) : sizeof(int32_t));
    counts = places.place(spread, {queries}, sizeof(int32_t));
    bounds = places.place(spread, {queries}, sizeof(E));
    spare = places.place(spread, {std::min(top_k, keys)}, sizeof(E));
    spare_keys = places.place(spread, {std::min(top_k, keys)}, sizeof(int32_t));
  }
};

// Byte offsets into the workspace, each 64-byte aligned; 0 for what a call does not need.
struct ScratchLayout {
  // Once per call.
  size_t unit_starts;      // [sequences + 1] int64: units of a head before each sequence
  size_t block_starts;     // [sequences + 1] int64: blocks of keys before each sequence
  size_t saved_state;      // [heads][state_rows][q_len] E, for a second pass over the scores
  size_t angles;           // tables of what happens to rows before they are multiplied
  size_t relative_starts;  // [distances] int64: where rows of a log scale begin
  size_t changed_key;      // [matrices][k_len][head_dim] of the inputs' dtype, if keys are changed
  size_t sieve_keys;       // [matrices of keys][rows][dims] uint8, padded: rounded keys (sieve.h)
  size_t sieve_groups;     // [matrices of keys][rows / kSieveGroup] KeyGroup
  size_t packed_key;       // [matrices][packed_rows][head_dim, padded] of the route's elements
  size_t packed_value;     // the same of values
  size_t key_outside;      // [matrices][packed_rows / step] uint32: what exact_rows.h finds in them
  size_t value_outside;    // the same of values
  size_t workers;          // the scratch of worker 0; that of the next is `worker_bytes` further
  // Once per worker, from its own begin. A unit has unit_queries queries.
  size_t tiles;          // [tiles] QueryTile
  size_t query_t;        // [tiles][head_dim][queries] of the route's elements
  size_t position_t;     // the same of queries that meet key_rows, where these are others
  size_t output_t;       // [tiles][value_dim][queries] E
  size_t extra_t;        // the same, for a normaliser with an extra output
  size_t scores;         // [block_keys][tile queries] E, and a vector to read beyond
  size_t second;         // the same: weights of the extra output
  size_t rounded;        // [block_keys][tile queries] of the route's weights, if it rounds
  size_t state;          // [tiles][state_rows][queries] E
  size_t candidates;     // [tiles][candidates][queries] E
  size_t entropy;        // [tiles][queries] E
  size_t rows;           // [6][max_vectors * lanes] E: what a tile needs for a moment
  size_t bits;           // [block_keys] uint64
  size_t kept;           // [block_keys] uint64, for dropout
  size_t masks;          // [slots of the masks] BoundMask
  size_t key;            // [block_keys][head_dim] of the route's elements, if packed
  size_t value;          // [block_keys][value_dim] of the route's elements, if packed
  size_t sieve_rows;     // [kSieveGroup][head_dim] E: keys of a group, if packed
  size_t sieve_queries;  // tiles of rounded queries (sieve.h)
  size_t row_change;     // of a RowChanger, if there is a change
  size_t changed_query;  // [unit queries][head_dim] of the inputs' dtype, likewise
  RelativeScratch relative;
  ExactScratch exact;
  StagedScratch staged;
  TopScratch top;
  size_t sums;    // [block_keys][lanes] E: attention received by the keys of a block
  size_t totals;  // [block_keys] double: the same, of many tiles
  size_t cells;   // [map rows of a task][columns] double
  // Of sparse normalisers; the long lists are those of one vector of queries.
  int64_t short_list;  // scores of a list
  size_t lists;        // [tiles][queries][list_stride] E
  size_t list_keys;    // the same, int32
  size_t list_counts;  // [tiles][2][queries] int32
  size_t long_lists;   // [grain][list_stride of all keys] E
  size_t long_keys;    // the same, int32
  size_t long_counts;  // [2][grain] int32
  size_t long_state;   // [state_rows][grain] E
  size_t list_values;  // [kPackedValues][value_dim] E, where values are not in place
  size_t worker_bytes;

  // Bytes of workspace for so many workers, at any alignment. Throws Error(overflow).
  size_t bytes_for(int count) const;
};

template <class E>
ScratchLayout layout_of(const Problem& problem, const Captures& captures, const Tiling& tiling,
                        const Kernels<E>& kernels, int64_t mask_slots, size_t tile_size);

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

// Has the route operands of its own, which are dear to make?
template <class E>
bool packs_rows(const RouteKernels<E>& route) {
  return route.step > 2;
}

// `dims`, rounded up to the step of the route: the stride of packed rows.
inline int64_t packed_stride(int64_t dims, int step) { return (dims + step - 1) & -int64_t{step}; }

}  // namespace rapt
