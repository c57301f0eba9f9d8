// Sizes of units, tiles and blocks, and the layout of scratch memory.
#include "attention/tiling.h"

#include <algorithm>

#include "attention/packed_keys.h"
#include "attention/row_changer.h"
#include "attention/sieve.h"

namespace rapt {
namespace {

// Queries that share a pass over the keys: with 192 the kernel asks the L2 for less than a byte per
// cycle of K and V, so that even keys in DRAM leave it bound by arithmetic.
constexpr int64_t kUnitQueries = 192;

// More for products by tiles, beside which packing a block of keys and values would weigh.
constexpr int64_t kTileUnitQueries = 512;

// Fewer with lists of candidates, so that what these hold stays in the L2.
constexpr int64_t kSparseUnitQueries = 96;

// K and V of a block, and the queries and outputs of a unit, should stay in half a mebibyte of L2.
constexpr int64_t kUnitBytes = 512 << 10;

// Packed keys and values that all tiles of a unit meet before the next ones: with more, they would
// come from memory for each tile.
constexpr int64_t kBytesAtWork = 512 << 10;

// Operations that pay for another thread: some 30 us of work on one core, which is what it takes to
// wake a sleeping one.
constexpr double kWorkOfWorker = 6e6;

// Operations of a task, at least: fetching the next one costs some 100 ns, and 20 us hide it.
constexpr double kWorkOfTask = 4e6;

// Fewer units than this per worker and the last one makes the others wait: units become smaller.
// With 16, one head of 2,048 queries on two threads has units of a single tile, which reads K and V
// twice as often as it pays.
constexpr int64_t kUnitsPerWorker = 8;

int64_t count_units(const Problem& p, int64_t unit_queries) {
  if (!p.query_starts) return ceil_div(p.q_len, unit_queries);
  int64_t units = 0;
  for (int64_t s = 0; s < p.sequences; ++s) units += ceil_div(p.sequence(s).q_len, unit_queries);
  return units;
}

// Neighbouring heads that read the same rows of a bias: the last leading dimensions, as far as it
// is broadcast along them. If they take turns, one reads from memory what the others find in the
// cache: at 4,096 queries and keys a bias of two heads costs 28 % of a call instead of 31.
int64_t heads_of_a_bias(const Problem& p) {
  int64_t heads = 1;
  if (!p.has_bias || p.bias.row_stride == 0) return heads;
  for (int i = p.leading_rank; i-- > 0 && p.bias.lead_strides[i] == 0;) heads *= p.leading[i];
  return std::max<int64_t>(heads, 1);
}

// May all keys and values be packed at once? Rows that repeat can be more than have addresses.
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

int64_t map_rows_per_task(const Problem& p, const RequestedMap& map, const Tiling& t) {
  const int64_t queries_per_row = p.q_len / map.rows;
  return std::clamp<int64_t>(t.long_vectors * t.lanes / queries_per_row, 1, map.rows);
}

double worthwhile_workers(double work) { return 1 + work * (1 / kWorkOfWorker); }

template <class E>
Tiling tiling_of(const Problem& p, const Kernels<E>& kernels, double work, const Workers& available,
                 Memory memory) {
  Tiling t;
  t.lanes = kernels.table.lanes;
  t.grain = int64_t{t.lanes} * kernels.route.grain;
  t.max_vectors = kernels.route.widest();
  t.long_vectors = kernels.route.long_vectors;
  t.step = kernels.route.step;
  const int64_t dims = p.head_dim + p.value_dim;
  // 128 keys: long enough to pay for a tile's prologue, and a tile of scores is half an L1. Large
  // heads, by the larger of a route's two sizes, take 64, for the L2.
  t.block_keys = dims * kernels.route.weight_size <= 1024 ? kMostBlockKeys : 64;

  const int64_t tile_queries = t.lanes * t.long_vectors;
  const int64_t tile_bytes = dims * tile_queries * static_cast<int64_t>(sizeof(E));
  const int64_t queries = kernels.normalizer.settle ? kSparseUnitQueries
                          : kernels.route.step > 2  ? kTileUnitQueries
                                                    : kUnitQueries;
  int64_t tiles = std::clamp<int64_t>(kUnitBytes / tile_bytes, 1, queries / tile_queries);
  t.units_per_head = count_units(p, tiles * tile_queries);

  const double worth = worthwhile_workers(work);
  t.workers = worth < available.most ? static_cast<int>(worth) : available.most;
  t.to_executor = worth >= 2;
  while (t.workers > 1 && tiles > 1 && p.heads * t.units_per_head < kUnitsPerWorker * t.workers) {
    tiles /= 2;
    t.units_per_head = count_units(p, tiles * tile_queries);
  }
  t.unit_queries = tiles * tile_queries;
  t.heads_in_turn = heads_of_a_bias(p);
  const int64_t units = p.heads * t.units_per_head;
  t.packs_ahead = packs_rows(kernels.route) && memory == Memory::automatic &&
                  units > KeyMatrices(p, p.key).count && packed_fit(p, kernels.route);
  if (t.packs_ahead) {
    const int64_t stride = packed_stride(p.head_dim, t.step) + packed_stride(p.value_dim, t.step);
    t.blocks_at_work = std::clamp<int64_t>(
        kBytesAtWork / (stride * kernels.route.element_size * t.block_keys), 1, kMostBlocksAtWork);
  }
  t.workers = static_cast<int>(std::clamp<int64_t>(units, 1, t.workers));
  if (!available.can_be_fewer) t.workers = t.to_executor ? available.most : 1;

  // Short sequences share a task, but every worker gets some.
  if (units <= 1) return t;
  const double per_task = kWorkOfTask * static_cast<double>(units) / std::max(work, 1.0);
  const int64_t most = std::max<int64_t>(1, units / (4 * t.workers));
  t.units_per_task = per_task < static_cast<double>(most)
                         ? std::max<int64_t>(1, static_cast<int64_t>(per_task))
                         : most;
  return t;
}

template Tiling tiling_of(const Problem&, const Kernels<float>&, double, const Workers&, Memory);
template Tiling tiling_of(const Problem&, const Kernels<double>&, double, const Workers&, Memory);

template <class E>
ScratchLayout layout_of(const Problem& p, const Captures& c, const Tiling& t,
                        const Kernels<E>& kernels, int64_t mask_slots, size_t tile_size) {
  ScratchLayout layout = {};
  size_t at = 0;
  // No product overflows: head sizes are at most 2^32 and those of the output, like heads * q_len,
  // fit 64 bits sixteenfold (problem.cpp); a unit has at most 512 queries, a block 128 keys.
  const auto place = [&](int64_t count, size_t size) {
    const size_t here = at;
    at += (static_cast<size_t>(count) * size + 63) & ~size_t{63};
    return here;
  };
  const auto place_if = [&](bool needed, int64_t count, size_t size) {
    return needed ? place(count, size) : 0;
  };
  const NormalizerKernels<E>& n = kernels.normalizer;
  const RouteKernels<E>& route = kernels.route;
  const auto route_size = static_cast<size_t>(route.element_size);
  const bool packed = p.query_starts != nullptr;
  layout.unit_starts = place_if(packed, p.sequences + 1, sizeof(int64_t));
  layout.block_starts = place_if(packed && c.received, p.sequences + 1, sizeof(int64_t));
  layout.saved_state = place_if(c.second_pass(), p.heads * n.state_rows * p.q_len, sizeof(E));
  const RowChange& change = p.rows;
  layout.angles = place_if(change.any(), static_cast<int64_t>(row_change_bytes(change)), 1);
  layout.changed_key = place_if(change.changes_key, change.copied_matrices * p.k_len,
                                static_cast<size_t>(p.head_dim * size_of(p.dtype)));
  layout.relative_starts = place_if(p.relative.log_scale(), p.relative.distances, sizeof(int64_t));
  if (kernels.sieve) {
    const int64_t rows = KeyMatrices(p, p.key).count * sieve_rows(p.k_len);
    layout.sieve_keys = place(rows, static_cast<size_t>(sieve_dims(p.head_dim)));
    layout.sieve_groups = place(rows / kSieveGroup, sizeof(KeyGroup));
  }
  if (t.packs_ahead) {
    const int64_t rows = packed_rows(p, t.step);
    const auto place_rows = [&](const Operand& o, int64_t dims, size_t& rows_at, size_t& outside) {
      const int64_t all = KeyMatrices(p, o).count * rows;
      rows_at = place(all * packed_stride(dims, t.step), route_size);
      outside = place_if(route.find_outside != nullptr, all / t.step, sizeof(uint32_t));
    };
    place_rows(p.key, p.head_dim, layout.packed_key, layout.key_outside);
    place_rows(p.value, p.value_dim, layout.packed_value, layout.value_outside);
  }
  layout.workers = at;

  at = 0;
  // The narrowest problem needs less than a unit.
  int64_t longest = packed ? 0 : p.q_len, keys = packed ? 0 : p.k_len;
  for (int64_t s = 0; packed && s < p.sequences; ++s) {
    longest = std::max(longest, p.sequence(s).q_len);
    keys = std::max(keys, p.sequence(s).k_len);
  }
  const int64_t unit = std::min(t.unit_queries, t.padded(longest));
  const int64_t tile = std::min<int64_t>(unit, t.max_vectors * t.lanes);
  layout.tiles = place(t.cut(unit).tiles, tile_size);
  layout.query_t = place(packed_stride(p.head_dim, t.step) * unit, route_size);
  layout.position_t =
      place_if(change.shifted, packed_stride(p.head_dim, t.step) * unit, route_size);
  layout.output_t = place(p.value_dim * unit, sizeof(E));
  const int64_t tile_scores = t.block_keys * tile + t.lanes;
  layout.scores = place(tile_scores, sizeof(E));
  layout.extra_t = place_if(n.extra, p.value_dim * unit, sizeof(E));
  layout.second = place_if(n.extra, tile_scores, sizeof(E));
  layout.rounded =
      place_if(route.round_weights, t.block_keys * tile, static_cast<size_t>(route.weight_size));
  layout.state = place(n.state_rows * unit, sizeof(E));
  layout.candidates = place_if(n.candidates > 0, n.candidates * unit, sizeof(E));
  layout.entropy = place_if(c.entropy, unit, sizeof(E));
  layout.rows = place(6 * t.max_vectors * t.lanes, sizeof(E));
  layout.bits = place(t.block_keys, sizeof(uint64_t));
  layout.kept = place_if(p.drop_below > 0, t.block_keys, sizeof(uint64_t));
  layout.masks = place_if(mask_slots > 0, mask_slots, sizeof(BoundMask));
  layout.key = place_if(!keys_in_place(p, route) && !t.packs_ahead,
                        t.block_keys * packed_stride(p.head_dim, t.step), route_size);
  layout.value = place_if(!values_in_place(p, route) && !t.packs_ahead,
                          t.block_keys * packed_stride(p.value_dim, t.step), route_size);
  if (kernels.sieve) {
    layout.sieve_rows = place_if(!keys_in_place(p, route), kSieveGroup * p.head_dim, sizeof(E));
    layout.sieve_queries = place(unit, static_cast<size_t>(sieve_query_bytes(p.head_dim)));
  }
  layout.row_change = place_if(
      change.any(),
      static_cast<int64_t>(RowChanger<E>::bytes_for(kernels.table, change, p.head_dim)), 1);
  layout.changed_query =
      place_if(change.any(), unit * p.head_dim, static_cast<size_t>(size_of(p.dtype)));
  ScratchPlaces places(at);
  layout.relative = RelativeScratch(p, t.block_keys, tile, t.lanes, places);
  layout.exact = ExactScratch(p, route, t.block_keys, tile, places);
  layout.staged = StagedScratch(kernels, t.block_keys, tile, places);
  layout.top = TopScratch(kernels, c.top_k, keys, unit, places);
  at = places.bytes();
  layout.sums = place_if(c.received, t.block_keys * t.lanes, sizeof(E));
  layout.totals = place_if(c.received, t.block_keys, sizeof(double));
  layout.cells =
      c.map.wanted ? place(map_rows_per_task(p, c.map, t) * c.map.columns, sizeof(double)) : 0;
  if (n.settle) {
    layout.short_list = std::min(kShortList, keys);
    const int64_t shorter = list_stride(layout.short_list, t.lanes);
    layout.lists = place(unit * shorter, sizeof(E));
    layout.list_keys = place(unit * shorter, sizeof(int32_t));
    layout.list_counts = place(2 * unit, sizeof(int32_t));
    const int64_t longer = keys > kShortList ? t.grain * list_stride(keys, t.lanes) : 0;
    layout.long_lists = place(longer, sizeof(E));
    layout.long_keys = place(longer, sizeof(int32_t));
    layout.long_counts = place(2 * t.grain, sizeof(int32_t));
    layout.long_state = place(n.state_rows * t.grain, sizeof(E));
    const RouteKernels<E>& widening = *kernels.table.fma[static_cast<int>(p.value.dtype)];
    layout.list_values =
        place_if(!values_in_place(p, widening), kPackedValues * p.value_dim, sizeof(E));
  }
  layout.worker_bytes = at;
  return layout;
}

template ScratchLayout layout_of(const Problem&, const Captures&, const Tiling&,
                                 const Kernels<float>&, int64_t, size_t);
template ScratchLayout layout_of(const Problem&, const Captures&, const Tiling&,
                                 const Kernels<double>&, int64_t, size_t);

size_t ScratchLayout::bytes_for(int count) const {
  size_t bytes;
  if (__builtin_mul_overflow(worker_bytes, static_cast<size_t>(count), &bytes) ||
      __builtin_add_overflow(bytes, workers, &bytes) ||
      __builtin_add_overflow(bytes, size_t{63}, &bytes))
    throw Error(ErrorCode::overflow, "the workspace does not fit into 64-bit addresses");
  return bytes;
}

}  // namespace rapt
