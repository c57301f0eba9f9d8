// Lays out the workspace of a forward call.
#include "attention/tiles/lay_out_scratch.h"

#include "attention/rows/row_transformer.h"
#include "attention/tiles/packed_keys.h"
#include "attention/tiles/prefilter.h"
#include "attention/tiles/query_tile.h"

namespace rapt {

template <class E>
ScratchLayout layout_of(const Problem& p, const Captures& c, const Tiling& t,
                        const Kernels<E>& kernels, int64_t mask_slots) {
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
  int64_t longest = packed ? 0 : p.q_len;
  for (int64_t s = 0; packed && s < p.sequences; ++s)
    longest = std::max(longest, p.sequence(s).q_len);
  const int64_t unit = std::min(t.unit_queries, t.padded(longest));
  const int64_t tile = std::min<int64_t>(unit, t.max_vectors * t.lanes);
  layout.tiles = place(t.cut(unit).tiles, sizeof(QueryTile<E>));
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
  layout.best = place_if(c.top_k > 0, c.top_k * unit, sizeof(E));
  layout.best_keys = place_if(c.top_k > 0, c.top_k * unit, sizeof(E));
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
  at = places.bytes();
  layout.sums = place_if(c.received, t.block_keys * t.lanes, sizeof(E));
  layout.totals = place_if(c.received, t.block_keys, sizeof(double));
  layout.cells =
      c.map.wanted ? place(map_rows_per_task(p, c.map, t) * c.map.columns, sizeof(double)) : 0;
  if (n.settle) {
    int64_t keys = packed ? 0 : p.k_len;
    for (int64_t s = 0; packed && s < p.sequences; ++s) keys = std::max(keys, p.sequence(s).k_len);
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
                                 const Kernels<float>&, int64_t);
template ScratchLayout layout_of(const Problem&, const Captures&, const Tiling&,
                                 const Kernels<double>&, int64_t);

}  // namespace rapt
