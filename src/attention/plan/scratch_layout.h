#pragma once
// Where the arrays of a forward call lie in its workspace. layout_of() (tiles/lay_out_scratch.h)
// fills it in; passes read it.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/plan/tiling.h"
#include "base/scratch_places.h"

namespace rapt {

// Offsets for distance tables (relative/distance_products.h) within a worker's scratch; 0 for
// arrays that a call does not need.
struct RelativeScratch {
  size_t by_distance = 0;  // [distances of a tile + lanes][tile queries] E
  size_t rows = 0;         // [distances of a tile][largest dims] E, of tables not read in place
  size_t bits = 0;         // [distances of a tile] uint64
  size_t unused_max = 0;   // [tile queries] E
  // For keys as lanes, where there are query_rows:
  size_t by_query = 0;  // [2 tile queries + 2 lanes][lanes] E
  size_t key_t = 0;     // [head_dim][lanes] E

  RelativeScratch() = default;
  // For query tiles of at most `queries`.
  RelativeScratch(const Problem& p, int64_t block_keys, int64_t queries, int64_t lanes,
                  ScratchPlaces& places) {
    if (!p.relative.tables()) return;
    const auto size = static_cast<size_t>(size_of(p.result_dtype));
    const int64_t distances = block_keys + queries;
    by_distance = places.place(true, {distances + lanes, queries}, size);
    rows = places.place(true, {distances, std::max(p.head_dim, p.value_dim)}, size);
    bits = places.place(true, {distances}, sizeof(uint64_t));
    unused_max = places.place(true, {queries}, size);
    by_query = places.place(p.relative.query, {2 * (queries + lanes), lanes}, size);
    key_t = places.place(p.relative.query, {p.head_dim, lanes}, size);
  }
};

// Offsets for tiles/exact_rows.h within a worker's scratch.
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

// Offsets for forward/pipelined_tiles.h within a worker's scratch.
struct PipelineScratch {
  size_t scores = 0;         // [block_keys][tile queries] E
  size_t rounded[2] = {};    // the same, of the route's weights
  size_t block_max[2] = {};  // [tile queries] E
  size_t factor[2] = {};     // the same

  PipelineScratch() = default;
  template <class E>
  PipelineScratch(const Kernels<E>& kernels, int64_t block_keys, int64_t queries,
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

// Offsets for forward/top_scores.h within a worker's scratch: a list of the largest scores per
// query.
struct TopScratch {
  bool sorted = false;   // lists that stay sorted; else long lists, which are sorted at the end
  int64_t capacity = 0;  // of a long list
  size_t scores = 0;     // sorted: [tiles][top_k][queries] E; long: [tiles][queries][list_stride] E
  size_t keys = 0;       // the same shape; sorted: as the bits of an E; long: int32
  // Of long lists only.
  size_t counts = 0;      // [tiles][queries] int32
  size_t bounds = 0;      // [tiles][queries] E
  size_t spare = 0;       // [top_k] E, where one list is sorted
  size_t spare_keys = 0;  // the same, int32

  TopScratch() = default;
  // `keys`: the largest number of keys that a query can attend to.
  TopScratch(int64_t top_k, int64_t keys, int64_t queries, int lanes, size_t element,
             ScratchPlaces& places)
      : sorted(top_k <= kMostSorted), capacity(sorted ? 0 : std::min(2 * top_k, keys)) {
    const bool needed = top_k > 0, spread = needed && !sorted;
    const int64_t list = sorted ? top_k : list_stride(capacity, lanes);
    scores = places.place(needed, {queries, list}, element);
    this->keys = places.place(needed, {queries, list}, sorted ? element : sizeof(int32_t));
    counts = places.place(spread, {queries}, sizeof(int32_t));
    bounds = places.place(spread, {queries}, element);
    spare = places.place(spread, {std::min(top_k, keys)}, element);
    spare_keys = places.place(spread, {std::min(top_k, keys)}, sizeof(int32_t));
  }
};

// Byte offsets into the workspace, each 64-byte aligned; 0 for arrays that a call does not need.
struct ScratchLayout {
  // Once per call.
  size_t unit_starts;      // [sequences + 1] int64: units of a head before each sequence
  size_t block_starts;     // [sequences + 1] int64: blocks of keys before each sequence
  size_t saved_state;      // [heads][state_rows][q_len] E, for a second pass over the scores
  size_t angles;           // tables of the row transform
  size_t relative_starts;  // [distances] int64: the first distance of each row of a log scale
  size_t
      transformed_key;  // [matrices][k_len][head_dim] of the inputs' dtype, if keys are transformed
  size_t
      prefilter_keys;  // [matrices of keys][rows][dims] uint8, padded: rounded keys (prefilter.h)
  size_t prefilter_groups;  // [matrices of keys][rows / kPrefilterGroup] KeyGroup
  size_t packed_key;        // [matrices][packed_rows][head_dim, padded] of the route's elements
  size_t packed_value;      // the same for values
  size_t key_outside;       // [matrices][packed_rows / step] uint32: rows that exact_rows.h adds
  size_t value_outside;     // the same of values
  size_t workers;           // the scratch of worker 0; each next one is `worker_bytes` further
  // Once per worker, as offsets into its scratch. A work unit has unit_queries queries.
  size_t tiles;              // [tiles] QueryTile
  size_t query_t;            // [tiles][head_dim][queries] of the route's elements
  size_t position_t;         // the same for products with key_rows, where query biases differ
  size_t output_t;           // [tiles][value_dim][queries] E
  size_t scores;             // [block_keys][tile queries] E, and a vector to read beyond
  size_t rounded;            // [block_keys][tile queries] of the route's weights, if it rounds
  size_t state;              // [tiles][state_rows][queries] E
  size_t entropy;            // [tiles][queries] E
  size_t rows;               // [kTileRows][max_vectors * lanes] E: TileRow
  size_t bits;               // [block_keys] uint64
  size_t kept;               // [block_keys] uint64, for dropout
  size_t masks;              // [slots of the masks] BoundMask
  size_t key;                // [block_keys][head_dim] of the route's elements, if packed
  size_t value;              // [block_keys][value_dim] of the route's elements, if packed
  size_t prefilter_rows;     // [kPrefilterGroup][head_dim] E: keys of a group, if packed
  size_t prefilter_queries;  // tiles of rounded queries (prefilter.h)
  size_t row_transform;      // scratch of a RowTransformer, if there is a row transform
  size_t
      transformed_query;  // [unit queries][head_dim] of the inputs' dtype, if rows are transformed
  RelativeScratch relative;
  ExactScratch exact;
  PipelineScratch pipeline;
  TopScratch top;
  size_t sums;    // [block_keys][lanes] E: attention received by the keys of a block
  size_t totals;  // [block_keys] double: the same, of many tiles
  size_t cells;   // [map rows of a task][columns] double
  // Lists of sparse normalisers; the long lists belong to one vector of queries.
  int64_t short_list;  // capacity of a list
  size_t lists;        // [tiles][queries][list_stride] E
  size_t list_keys;    // the same, int32
  size_t list_counts;  // [tiles][2][queries] int32
  size_t long_lists;   // [grain][list_stride of all keys] E
  size_t long_keys;    // the same, int32
  size_t long_counts;  // [2][grain] int32
  size_t long_state;   // [state_rows][grain] E
  size_t list_values;  // [kPackedValues][value_dim] E, where values are not in place
  size_t worker_bytes;

  // Bytes of workspace for `count` workers, at any alignment. Throws Error(overflow).
  size_t bytes_for(int count) const;
};

}  // namespace rapt
