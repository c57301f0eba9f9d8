#pragma once
// How a problem is cut into tasks, tiles and blocks, and how a worker's scratch is laid out.
//
// Sizes depend on dtype, instruction set and head sizes only, and blocks of keys are anchored at
// key 0, so that a row's bits depend neither on q_len nor on k_len. The width of a tile may vary
// freely: no operation crosses lanes.
#include <cstddef>
#include <cstdint>

#include "attention/problem.h"
#include "kernels/kernel_table.h"

namespace rapt {

struct Tiling {
  int lanes = 1, vectors = 1;  // of a full tile; the last tile of a head may be narrower
  int64_t tile_queries = 1;    // lanes * vectors
  int64_t tiles_per_task = 1;  // tiles that share one pass over the keys
  int64_t task_queries = 1;
  int64_t block_keys = 1;
  int64_t tasks_per_head = 0;

  int64_t blocks(int64_t k_len) const { return (k_len + block_keys - 1) / block_keys; }
  // Vectors of a tile that holds `rows` queries.
  int vectors_for(int64_t rows) const {
    const int needed = static_cast<int>((rows + lanes - 1) / lanes);
    return needed < vectors ? needed : vectors;
  }
};

template <class E>
Tiling tiling_of(const Problem& problem, const KernelTable<E>& table);

// Byte offsets of a worker's scratch, each 64-byte aligned.
struct ScratchLayout {
  size_t query_t = 0;     // [tiles][head_dim][tile_queries] E
  size_t output_t = 0;    // [tiles][value_dim][tile_queries] E
  size_t extra_t = 0;     // the same, for a normaliser with an extra output
  size_t scores = 0;      // [block_keys][tile_queries] E, and a vector to read beyond
  size_t second = 0;      // the same: weights of the extra output
  size_t state = 0;       // [tiles][state_rows][tile_queries] E
  size_t candidates = 0;  // [tiles][candidates][tile_queries] E
  size_t rows = 0;        // [5][tile_queries] E: block maximum, factor, inverses, statistic
  size_t bits = 0;        // [block_keys] uint64
  size_t masks = 0;       // [slots of the masks] BoundMask
  size_t key = 0;         // [block_keys][head_dim] E, if key rows are not dense
  size_t value = 0;       // [block_keys][value_dim] E, if value rows are not dense
  size_t bytes = 0;       // of one worker
};

template <class E>
ScratchLayout layout_of(const Problem& problem, const Tiling& tiling,
                        const NormalizerKernels<E>& normalizer, int64_t mask_slots);

// Bytes of workspace for so many workers, at any alignment. Throws Error(overflow).
size_t bytes_for(const ScratchLayout& layout, int workers);

}  // namespace rapt
