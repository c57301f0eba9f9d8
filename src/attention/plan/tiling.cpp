// Sizes of units, tiles and blocks.
#include "attention/plan/tiling.h"

#include <algorithm>

#include "attention/plan/key_matrices.h"
#include "base/rare.h"

namespace rapt {
namespace {

// Queries of a work unit. With 192, the kernel reads less than a byte of K and V per cycle, so that
// it is bound by arithmetic even with keys in DRAM.
constexpr int64_t kUnitQueries = 192;

// Queries of a work unit with tile registers. Their products are so fast that packing a key block
// takes a noticeable share of the time; more queries share it.
constexpr int64_t kTileUnitQueries = 512;

// Queries of a work unit with candidate lists, few enough that the lists stay in the L2.
constexpr int64_t kSparseUnitQueries = 96;

// K and V of a block, and the queries and outputs of a unit, should stay in half a mebibyte of L2.
constexpr int64_t kUnitBytes = 512 << 10;

// The bytes of packed keys and values that all tiles of a unit process before the next ones. More
// than this would be read from memory for each tile.
constexpr int64_t kBytesAtWork = 512 << 10;

// With fewer units per worker, units become smaller, because the last unit would keep the other
// workers waiting. With 16, one head of 2,048 queries on two threads would have units of a single
// tile, which would read K and V more often than pays.
constexpr int64_t kUnitsPerWorker = 8;

int64_t count_units(const Problem& p, int64_t unit_queries) {
  if (!rare(p.query_starts != nullptr)) return ceil_div(p.q_len, unit_queries);
  int64_t units = 0;
  for (int64_t s = 0; s < p.sequences; ++s) units += ceil_div(p.sequence(s).q_len, unit_queries);
  return units;
}

// The number of neighbouring heads that read the same bias rows: the last leading dimensions along
// which the bias is broadcast. If they take turns, one head reads the rows from memory and the
// others find them in the cache (docs/decisions/bias_in_parts.md).
int64_t heads_of_a_bias(const Problem& p) {
  int64_t heads = 1;
  if (!rare(p.has_bias) || p.bias.row_stride == 0) return heads;
  for (int i = p.leading_rank; i-- > 0 && p.bias.lead_strides[i] == 0;) heads *= p.leading[i];
  return std::max<int64_t>(heads, 1);
}

// Tasks of a worker where units are split: enough that the last one does not keep the others
// waiting for long.
constexpr int64_t kPartsPerWorker = 4;

// The sums of all chunks of split units take at most this many bytes. Rows of keys without end,
// which a stride of 0 makes, would exceed any memory.
constexpr double kMostSumBytes = 256 << 20;

// The chunks of a unit that one task sums: all, unless there are fewer units than threads.
template <class E>
int64_t chunks_per_task(const Problem& p, const Kernels<E>& kernels, const Tiling& t,
                        int most_workers) {
  const int64_t units = p.heads * t.units_per_head;
  if (units == 0 || units >= most_workers) return t.chunks;
  const int64_t q_len = t.padded(longest_sequence(p, &Sequence::q_len, p.q_len));
  const double numbers = static_cast<double>(p.value_dim) + kernels.normalizer.state_rows + 2;
  const double bytes = static_cast<double>(units) * static_cast<double>(t.chunks) * numbers *
                       static_cast<double>(std::min(t.unit_queries, q_len)) * sizeof(E);
  if (bytes > kMostSumBytes) return t.chunks;
  return ceil_div(t.chunks, ceil_div(kPartsPerWorker * most_workers, units));
}

// Whether all packed keys and values fit 64-bit addresses. Broadcast rows can exceed that.
template <class E>
bool packed_fit(const Problem& p, const RouteKernels<E>& route) {
  int64_t all = 0;
  const auto add = [&](const Operand& o, int64_t dims) {
    int64_t bytes = KeyMatrices(p, o).count;
    return !__builtin_mul_overflow(bytes, packed_rows(p, route.step), &bytes) &&
           !__builtin_mul_overflow(bytes, packed_stride(dims, route.step), &bytes) &&
           !__builtin_mul_overflow(bytes, route.element_size, &bytes) &&
           !__builtin_add_overflow(all, bytes, &all);
  };
  return add(p.key, p.head_dim) && add(p.value, p.value_dim);
}

}  // namespace

double work_of(const Problem& p) {
  double pairs = 0;
  for (int64_t s = 0; s < p.sequences; ++s)
    pairs += static_cast<double>(p.sequence(s).q_len) * static_cast<double>(p.sequence(s).k_len);
  return 2.0 * pairs * static_cast<double>(p.heads) * static_cast<double>(p.head_dim + p.value_dim);
}

int64_t query_group_of(const MaskList& masks) {
  int64_t group = 1;
  for (const Mask* root : masks)
    visit_masks(*root, [&](const Mask& mask) { group = std::max(group, mask.query_group()); });
  return group;
}

int vectors_of_group(const Tiling& t, int64_t query_group) {
  // Groups of more than eight tiles need no alignment: less than one tile in eight straddles two.
  if (query_group == 1 || query_group > 8 * t.max_vectors * t.lanes) return 0;
  const auto fits = [&](int vectors) { return query_group % (int64_t{vectors} * t.lanes) == 0; };
  if (fits(t.long_vectors)) return t.long_vectors;
  const int grain = t.vectors_of_grain();
  for (int vectors = t.max_vectors; vectors > 0 && 2 * vectors >= t.long_vectors; vectors -= grain)
    if (fits(vectors)) return vectors;
  return 0;
}

int64_t map_rows_per_task(const Problem& p, const RequestedMap& map, const Tiling& t) {
  const int64_t queries_per_row = p.q_len / map.rows;
  return std::clamp<int64_t>(t.long_vectors * t.lanes / queries_per_row, 1, map.rows);
}

template <class E>
Tiling tiling_of(const Problem& p, const Kernels<E>& kernels, const Workers& workers, Memory memory,
                 bool shares_rows, const MaskList& masks) {
  Tiling t = tiling_of_products(kernels);
  if (!masks.empty()) t.group_vectors = vectors_of_group(t, query_group_of(masks));
  const int64_t dims = p.head_dim + p.value_dim;
  // 128 keys pay for the prologue of a tile, and their score tile is half an L1. Large heads take
  // 64 keys, for the L2.
  t.block_keys = dims * kernels.route.weight_size <= 1024 ? kMostBlockKeys : 64;

  const int64_t tile_queries = t.lanes * (t.group_vectors > 0 ? t.group_vectors : t.long_vectors);
  const int64_t tile_bytes = dims * tile_queries * static_cast<int64_t>(sizeof(E));
  const int64_t queries = kernels.normalizer.settle ? kSparseUnitQueries
                          : kernels.route.step > 2  ? kTileUnitQueries
                                                    : kUnitQueries;
  // A group of heads is one unit, so that it reads its keys once.
  const int64_t least = p.group_heads > 1 ? ceil_div(p.q_len, tile_queries) : 1;
  int64_t tiles = std::clamp<int64_t>(kUnitBytes / tile_bytes, 1, queries / tile_queries);
  tiles = std::max(tiles, least);
  t.units_per_head = count_units(p, tiles * tile_queries);

  const int most = workers.worthwhile();
  t.to_executor = workers.to_executor();
  while (most > 1 && tiles > least && p.heads * t.units_per_head < kUnitsPerWorker * most) {
    tiles = std::max(tiles / 2, least);
    t.units_per_head = count_units(p, tiles * tile_queries);
  }
  t.unit_queries = tiles * tile_queries;
  t.heads_in_turn = heads_of_a_bias(p);
  const int64_t units = p.heads * t.units_per_head;
  t.packs_ahead = packs_rows(kernels.route) && memory == Memory::automatic && !p.pages.used() &&
                  units > KeyMatrices(p, p.key).count && packed_fit(p, kernels.route);
  if (rare(t.packs_ahead)) {
    const int64_t stride = packed_stride(p.head_dim, t.step) + packed_stride(p.value_dim, t.step);
    t.blocks_at_work = std::clamp<int64_t>(
        kBytesAtWork / (stride * kernels.route.element_size * t.block_keys), 1, kMostBlocksAtWork);
  }
  t.chunks = chunks_of_rows(p, kernels.normalizer);
  t.chunks_per_task = shares_rows ? chunks_per_task(p, kernels, t, most) : t.chunks;
  t.workers = workers.of_tasks(units * t.parts());
  t.units_per_task = t.splits() ? 1 : workers.items_per_task(units, t.workers);
  return t;
}

template Tiling tiling_of(const Problem&, const Kernels<float>&, const Workers&, Memory, bool,
                          const MaskList&);
template Tiling tiling_of(const Problem&, const Kernels<double>&, const Workers&, Memory, bool,
                          const MaskList&);

}  // namespace rapt
