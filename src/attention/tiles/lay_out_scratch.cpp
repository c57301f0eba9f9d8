// Lays out the workspace of a forward call.
#include "attention/tiles/lay_out_scratch.h"

#include <algorithm>

#include "attention/rows/row_transformer.h"
#include "attention/tiles/packed_keys.h"
#include "attention/tiles/prefilter.h"
#include "attention/tiles/query_tile.h"

namespace rapt {

namespace {

// The longest sequence of a call, by queries or by keys. A problem with fewer queries than a work
// unit needs less scratch.
int64_t longest(const Problem& p, int64_t Sequence::*length, int64_t whole) {
  if (!p.query_starts) return whole;
  int64_t most = 0;
  for (int64_t s = 0; s < p.sequences; ++s) most = std::max(most, p.sequence(s).*length);
  return most;
}

// Fills in a layout, group by group. The members are sizes that several groups use.
//
// No product overflows. Head sizes are at most 2^32. The sizes of the output, and heads * q_len,
// fit 64 bits even when multiplied by 16 (problem.cpp). A work unit has at most 512 queries and a
// block 128 keys.
template <class E>
class ScratchPlanner {
 public:
  // `layout` is all zeros.
  ScratchPlanner(const Problem& problem, const Captures& captures, const Tiling& tiling,
                 const Kernels<E>& kernels, ScratchLayout& layout)
      : p_(problem),
        c_(captures),
        t_(tiling),
        kernels_(kernels),
        n_(kernels.normalizer),
        route_(kernels.route),
        element_(static_cast<size_t>(route_.element_size)),
        stored_(static_cast<size_t>(size_of(problem.dtype))),
        unit_(std::min(t_.unit_queries, t_.padded(longest(p_, &Sequence::q_len, p_.q_len)))),
        tile_(std::min<int64_t>(unit_, t_.max_vectors * t_.lanes)),
        layout_(layout) {}

  void place_all(int64_t mask_slots) {
    place_call();
    layout_.workers = at_;
    at_ = 0;
    place_queries();
    place_scores(mask_slots);
    place_keys();
    place_variants();
    place_captures();
    if (n_.settle) place_lists();
    layout_.worker_bytes = at_;
  }

 private:
  size_t place(int64_t count, size_t size) {
    const size_t here = at_;
    at_ += (static_cast<size_t>(count) * size + 63) & ~size_t{63};
    return here;
  }
  size_t place_if(bool needed, int64_t count, size_t size) {
    return needed ? place(count, size) : 0;
  }

  // Arrays of the call.
  void place_call() {
    const bool packed = p_.query_starts != nullptr;
    const RowTransform& transform = p_.rows;
    layout_.unit_starts = place_if(packed, p_.sequences + 1, sizeof(int64_t));
    layout_.block_starts = place_if(packed && c_.received, p_.sequences + 1, sizeof(int64_t));
    layout_.saved_state =
        place_if(c_.second_pass(), p_.heads * n_.state_rows * p_.q_len, sizeof(E));
    layout_.angles =
        place_if(transform.any(), static_cast<int64_t>(row_transform_bytes(transform)), 1);
    layout_.transformed_key =
        place_if(transform.transforms_key, transform.transformed_matrices * p_.k_len,
                 static_cast<size_t>(p_.head_dim) * stored_);
    layout_.relative_starts =
        place_if(p_.relative.log_scale(), p_.relative.distances, sizeof(int64_t));
    if (kernels_.prefilter) {
      const int64_t rows = KeyMatrices(p_, p_.key).count * prefilter_rows(p_.k_len);
      layout_.prefilter_keys = place(rows, static_cast<size_t>(prefilter_dims(p_.head_dim)));
      layout_.prefilter_groups = place(rows / kPrefilterGroup, sizeof(KeyGroup));
    }
    if (!t_.packs_ahead) return;
    place_packed(p_.key, p_.head_dim, layout_.packed_key, layout_.key_outside);
    place_packed(p_.value, p_.value_dim, layout_.packed_value, layout_.value_outside);
  }

  void place_packed(const Operand& rows, int64_t dims, size_t& packed, size_t& outside) {
    const int64_t all = KeyMatrices(p_, rows).count * packed_rows(p_, t_.step);
    packed = place(all * packed_stride(dims, t_.step), element_);
    outside = place_if(route_.find_outside != nullptr, all / t_.step, sizeof(uint32_t));
  }

  // Arrays of a worker, from here on: queries and outputs of a work unit.
  void place_queries() {
    layout_.tiles = place(t_.cut(unit_).tiles, sizeof(QueryTile<E>));
    layout_.query_t = place(packed_stride(p_.head_dim, t_.step) * unit_, element_);
    layout_.position_t =
        place_if(p_.rows.adds_biases, packed_stride(p_.head_dim, t_.step) * unit_, element_);
    layout_.output_t = place(p_.value_dim * unit_, sizeof(E));
  }

  // Scores and weights of a tile, and the normaliser's state of a work unit's rows.
  void place_scores(int64_t mask_slots) {
    layout_.scores = place(t_.block_keys * tile_ + t_.lanes, sizeof(E));
    layout_.rounded = place_if(route_.round_weights, t_.block_keys * tile_,
                               static_cast<size_t>(route_.weight_size));
    layout_.state = place(n_.state_rows * unit_, sizeof(E));
    layout_.entropy = place_if(c_.entropy, unit_, sizeof(E));
    layout_.rows = place(kTileRows * t_.max_vectors * t_.lanes, sizeof(E));
    layout_.bits = place(t_.block_keys, sizeof(uint64_t));
    layout_.kept = place_if(p_.drop_below > 0, t_.block_keys, sizeof(uint64_t));
    layout_.masks = place_if(mask_slots > 0, mask_slots, sizeof(BoundMask));
  }

  // Keys and values of a block, where the products cannot read the caller's memory.
  void place_keys() {
    layout_.key = place_if(!keys_in_place(p_, route_) && !t_.packs_ahead,
                           t_.block_keys * packed_stride(p_.head_dim, t_.step), element_);
    layout_.value = place_if(!values_in_place(p_, route_) && !t_.packs_ahead,
                             t_.block_keys * packed_stride(p_.value_dim, t_.step), element_);
    if (!kernels_.prefilter) return;
    layout_.prefilter_rows =
        place_if(!keys_in_place(p_, route_), kPrefilterGroup * p_.head_dim, sizeof(E));
    layout_.prefilter_queries =
        place(unit_, static_cast<size_t>(prefilter_query_bytes(p_.head_dim)));
  }

  // Row transforms, relative positions, rows that the route cannot multiply, the pipeline.
  void place_variants() {
    const RowTransform& transform = p_.rows;
    layout_.row_transform = place_if(
        transform.any(),
        static_cast<int64_t>(RowTransformer<E>::bytes_for(kernels_.table, transform, p_.head_dim)),
        1);
    layout_.transformed_query = place_if(transform.any(), unit_ * p_.head_dim, stored_);
    ScratchPlaces places(at_);
    layout_.relative = RelativeScratch(p_, t_.block_keys, tile_, t_.lanes, places);
    layout_.exact = ExactScratch(p_, route_, t_.block_keys, tile_, places);
    layout_.pipeline = PipelineScratch(kernels_, t_.block_keys, tile_, places);
    layout_.top = TopScratch(c_.top_k, longest(p_, &Sequence::k_len, p_.k_len), unit_, t_.lanes,
                             sizeof(E), places);
    at_ = places.bytes();
  }

  void place_captures() {
    layout_.sums = place_if(c_.received, t_.block_keys * t_.lanes, sizeof(E));
    layout_.totals = place_if(c_.received, t_.block_keys, sizeof(double));
    if (c_.map.wanted)
      layout_.cells = place(map_rows_per_task(p_, c_.map, t_) * c_.map.columns, sizeof(double));
  }

  // The candidate lists of a sparse normaliser.
  void place_lists() {
    const int64_t keys = longest(p_, &Sequence::k_len, p_.k_len);
    layout_.short_list = std::min(kShortList, keys);
    const int64_t shorter = list_stride(layout_.short_list, t_.lanes);
    layout_.lists = place(unit_ * shorter, sizeof(E));
    layout_.list_keys = place(unit_ * shorter, sizeof(int32_t));
    layout_.list_counts = place(2 * unit_, sizeof(int32_t));
    const int64_t longer = keys > kShortList ? t_.grain * list_stride(keys, t_.lanes) : 0;
    layout_.long_lists = place(longer, sizeof(E));
    layout_.long_keys = place(longer, sizeof(int32_t));
    layout_.long_counts = place(2 * t_.grain, sizeof(int32_t));
    layout_.long_state = place(n_.state_rows * t_.grain, sizeof(E));
    const RouteKernels<E>& widening = *kernels_.table.fma[static_cast<int>(p_.value.dtype)];
    layout_.list_values =
        place_if(!values_in_place(p_, widening), kPackedValues * p_.value_dim, sizeof(E));
  }

  const Problem& p_;
  const Captures& c_;
  const Tiling& t_;
  const Kernels<E>& kernels_;
  const NormalizerKernels<E>& n_;
  const RouteKernels<E>& route_;
  const size_t element_, stored_;  // bytes of an element of the route, of the inputs
  const int64_t unit_, tile_;      // queries of a work unit and of a query tile
  ScratchLayout& layout_;
  size_t at_ = 0;
};

}  // namespace

template <class E>
ScratchLayout layout_of(const Problem& p, const Captures& captures, const Tiling& tiling,
                        const Kernels<E>& kernels, int64_t mask_slots) {
  ScratchLayout layout = {};
  ScratchPlanner<E>(p, captures, tiling, kernels, layout).place_all(mask_slots);
  return layout;
}

template ScratchLayout layout_of(const Problem&, const Captures&, const Tiling&,
                                 const Kernels<float>&, int64_t);
template ScratchLayout layout_of(const Problem&, const Captures&, const Tiling&,
                                 const Kernels<double>&, int64_t);

}  // namespace rapt
