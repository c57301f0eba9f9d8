// Tile and block sizes, and the layout of a worker's scratch.
#include "attention/tiling.h"

#include <algorithm>

namespace rapt {
namespace {

// Queries that share a pass over the keys: with 192 the kernel asks the L2 for less than a byte per
// cycle of K and V, so that even keys in DRAM leave it bound by arithmetic.
constexpr int64_t kTaskQueries = 192;

// K and V of a block, and the queries and outputs of a task, should stay in half a mebibyte of L2.
constexpr int64_t kTaskBytes = 512 << 10;

}  // namespace

template <class E>
Tiling tiling_of(const Problem& p, const KernelTable<E>& table) {
  Tiling t;
  t.lanes = table.lanes;
  t.vectors = table.max_vectors;
  t.tile_queries = t.lanes * t.vectors;
  const int64_t dims = p.head_dim + p.value_dim;
  // 128 keys: long enough to pay for a tile's prologue, and a tile of scores is half an L1. Large
  // heads take 64, for the L2.
  t.block_keys = dims <= 256 ? 128 : 64;
  const int64_t tile_bytes = dims * t.tile_queries * static_cast<int64_t>(sizeof(E));
  const int64_t tiles = std::min(kTaskQueries / t.tile_queries, kTaskBytes / tile_bytes);
  t.tiles_per_task = std::max<int64_t>(1, tiles);
  t.task_queries = t.tiles_per_task * t.tile_queries;
  t.tasks_per_head = p.q_len / t.task_queries + (p.q_len % t.task_queries != 0);
  return t;
}

template Tiling tiling_of(const Problem&, const KernelTable<float>&);
template Tiling tiling_of(const Problem&, const KernelTable<double>&);

template <class E>
ScratchLayout layout_of(const Problem& p, const Tiling& t, const NormalizerKernels<E>& normalizer,
                        int64_t mask_slots) {
  ScratchLayout layout;
  size_t at = 0;
  const auto place = [&](int64_t count, size_t size) {
    const size_t here = at;
    size_t bytes;
    if (__builtin_mul_overflow(static_cast<size_t>(count), size, &bytes) ||
        __builtin_add_overflow(at, (bytes + 63) / 64 * 64, &at))
      throw Error(ErrorCode::overflow, "the workspace does not fit into 64-bit addresses");
    return here;
  };
  const int64_t task = t.task_queries;
  layout.query_t = place(p.head_dim * task, sizeof(E));
  layout.output_t = place(p.value_dim * task, sizeof(E));
  layout.extra_t = place(normalizer.extra ? p.value_dim * task : 0, sizeof(E));
  const int64_t tile_scores = t.block_keys * t.tile_queries + t.lanes;
  layout.scores = place(tile_scores, sizeof(E));
  layout.second = place(normalizer.extra ? tile_scores : 0, sizeof(E));
  layout.state = place(normalizer.state_rows * task, sizeof(E));
  layout.candidates = place(normalizer.candidates * task, sizeof(E));
  layout.rows = place(5 * t.tile_queries, sizeof(E));
  layout.bits = place(t.block_keys, sizeof(uint64_t));
  layout.masks = place(mask_slots, sizeof(BoundMask));
  layout.key = place(p.key.dim_stride == 1 ? 0 : t.block_keys * p.head_dim, sizeof(E));
  layout.value = place(p.value.dim_stride == 1 ? 0 : t.block_keys * p.value_dim, sizeof(E));
  layout.bytes = at;
  return layout;
}

template ScratchLayout layout_of(const Problem&, const Tiling&, const NormalizerKernels<float>&,
                                 int64_t);
template ScratchLayout layout_of(const Problem&, const Tiling&, const NormalizerKernels<double>&,
                                 int64_t);

size_t bytes_for(const ScratchLayout& layout, int workers) {
  size_t bytes;
  if (__builtin_mul_overflow(layout.bytes, static_cast<size_t>(workers), &bytes) ||
      __builtin_add_overflow(bytes, size_t{63}, &bytes))
    throw Error(ErrorCode::overflow, "the workspace does not fit into 64-bit addresses");
  return bytes;
}

}  // namespace rapt
