// Lays out the workspace of a backward call.
#include "attention/backward/backward_layout.h"

#include <algorithm>

#include "attention/backward/sparse_pairs.h"
#include "attention/rows/row_transformer.h"
#include "attention/tiles/prefilter.h"
#include "attention/tiles/query_tile.h"
#include "base/scratch_places.h"

namespace rapt {
namespace {

// Whether the bias has one number per head.
bool has_bias_number(const TensorView& bias) {
  const auto length = [&](int from_end) {
    const int at = bias.rank - from_end;
    return at < 0 ? 1 : bias.shape[at];
  };
  return length(1) == 1 && length(2) == 1;
}

// Fills in a layout, group by group. The members are sizes that several groups use.
template <class E>
class BackwardLayoutPlanner {
 public:
  BackwardLayoutPlanner(const Problem& problem, const WantedGradients& wanted,
                        const BackwardPlan& plan, const AttentionOptions& options,
                        const Kernels<E>& kernels)
      : p_(problem),
        wanted_(wanted),
        plan_(plan),
        t_(plan.tiling),
        options_(options),
        kernels_(kernels),
        route_(kernels.route),
        element_(static_cast<size_t>(route_.element_size)),
        weight_(static_cast<size_t>(route_.weight_size)),
        stored_(static_cast<size_t>(size_of(problem.dtype))),
        head_stride_(packed_stride(problem.head_dim, t_.step)),
        value_stride_(packed_stride(problem.value_dim, t_.step)),
        unit_(std::min(t_.unit_queries, plan.longest_query)),
        tiles_(t_.cut(unit_).tiles),
        tile_(std::min<int64_t>(unit_, t_.max_vectors * t_.lanes)),
        tile_scores_(t_.block_keys * tile_),
        pairs_(has_sparse_pairs(problem, kernels, options)),
        narrower_(wanted.dtype != problem.result_dtype) {}

  BackwardLayout layout(int64_t mask_slots) {
    place_call();
    place_forward_call();
    layout_.slots = places_.bytes();
    if (!wanted_.two_passes) place_component();
    const size_t workers = places_.bytes();
    places_.restart();
    if (wanted_.two_passes) place_sums(unit_, plan_.longest_chunk);
    place_tiles();
    place_keys();
    place_rounded();
    place_rows();
    place_forward_worker(mask_slots);
    layout_.forward.workers = workers;
    layout_.forward.worker_bytes = places_.bytes();
    places_.repeat(plan_.workers, workers);
    layout_.bytes = places_.total();
    return layout_;
  }

 private:
  size_t place(bool needed, std::initializer_list<int64_t> shape, size_t element) {
    return places_.place(needed, shape, element);
  }

  // Arrays of the call: the order of heads, and sums that are added up at the end.
  void place_call() {
    const int64_t heads = p_.heads, cells = plan_.cells_per_head;
    layout_.heads = place(true, {plan_.component_heads}, sizeof(ComponentHead));
    layout_.head_scratch = place(true, {plan_.component_heads}, sizeof(int64_t));
    layout_.cell_starts = place(p_.query_starts, {p_.sequences + 1}, sizeof(int64_t));
    layout_.deltas =
        place(wanted_.two_passes, {heads, kernels_.normalizer.delta_rows, p_.q_len}, sizeof(E));
    layout_.scale_sums = place(wanted_.scale, {heads, cells}, sizeof(double));
    layout_.score_sums = place(wanted_.score_parameters,
                               {heads, cells, wanted_.head_parameter_count}, sizeof(double));
    layout_.normalizer_sums =
        place(wanted_.normalizer_parameters,
              {heads, cells, wanted_.normalizer_head_parameter_count}, sizeof(double));
    layout_.query_bias_sums =
        place(wanted_.query_biases(), {heads, cells, 2, p_.head_dim}, sizeof(double));
    layout_.bias_sums =
        place(wanted_.bias && has_bias_number(options_.bias), {heads, cells}, sizeof(double));
  }

  // Arrays of the call for the recomputed scores.
  void place_forward_call() {
    ScratchLayout& forward = layout_.forward;
    forward.angles = place(p_.rows.any(), {static_cast<int64_t>(row_transform_bytes(p_.rows))}, 1);
    forward.relative_starts =
        place(p_.relative.log_scale(), {p_.relative.distances}, sizeof(int64_t));
    forward.transformed_key = place(p_.rows.transforms_key,
                                    {p_.rows.transformed_matrices, p_.k_len, p_.head_dim}, stored_);
    const int64_t key_rows =
        kernels_.prefilter ? KeyMatrices(p_, p_.key).count * prefilter_rows(p_.k_len) : 0;
    forward.prefilter_keys = place(kernels_.prefilter, {key_rows, prefilter_dims(p_.head_dim)}, 1);
    forward.prefilter_groups =
        place(kernels_.prefilter, {key_rows / kPrefilterGroup}, sizeof(KeyGroup));
  }

  // Arrays of a component at work, in one pass.
  void place_component() {
    places_.restart();
    place_sums(plan_.longest_query, plan_.longest_key);
    const auto windows = [&](bool needed, int64_t dims) {
      return place(needed, {plan_.most_parts, plan_.window_rows, dims}, sizeof(E));
    };
    layout_.key_windows = windows(wanted_.key_rows, p_.head_dim);
    layout_.query_windows = windows(wanted_.query_rows_sums, p_.head_dim);
    layout_.value_windows = windows(wanted_.value_rows, p_.value_dim);
    layout_.slot_bytes = places_.bytes();
    places_.repeat(plan_.workers_share_component ? 1 : plan_.workers, layout_.slots);
  }

  // Arrays over all queries and keys of a component at work; in two passes, of a work unit and a
  // chunk.
  void place_sums(int64_t queries, int64_t keys) {
    const bool query_sums = wanted_.query_sums(), one_pass = !wanted_.two_passes;
    const int64_t* const slots = plan_.slots;
    layout_.query_t = place(true, {queries, head_stride_}, element_);
    layout_.transformed_query = place(p_.rows.any(), {queries, p_.head_dim}, stored_);
    layout_.position_t = place(p_.rows.adds_biases, {queries, head_stride_}, element_);
    layout_.position_query = place(p_.rows.adds_biases, {queries, p_.head_dim}, stored_);
    layout_.prefilter_queries =
        place(kernels_.prefilter, {queries, prefilter_query_bytes(p_.head_dim)}, 1);
    layout_.d_output_t = place(true, {queries, value_stride_}, element_);
    layout_.d_query_t = place(query_sums, {slots[kOfQuery], queries, p_.head_dim}, sizeof(E));
    layout_.kept_pairs = place(pairs_ && one_pass, {queries, kKeptPairs}, sizeof(SparsePair<E>));
    layout_.kept_counts = place(pairs_ && one_pass, {queries}, sizeof(int64_t));
    layout_.d_query_pairs =
        place(query_sums && pairs_, {slots[kOfQuery], queries, p_.head_dim}, sizeof(E));
    layout_.query_dots =
        place(wanted_.scale && p_.rows.adds_biases, {slots[kOfQuery], queries}, sizeof(E));
    layout_.statistic = place(true, {queries}, sizeof(E));
    layout_.delta = place(true, {kernels_.normalizer.delta_rows, queries}, sizeof(E));
    layout_.d_key = place(wanted_.key && narrower_, {slots[kOfKey], keys, p_.head_dim}, sizeof(E));
    layout_.d_value =
        place(wanted_.value && narrower_, {slots[kOfValue], keys, p_.value_dim}, sizeof(E));
  }

  // Arrays of a worker: weights and gradients of the tiles of a work unit.
  void place_tiles() {
    layout_.tiles = place(true, {tiles_}, sizeof(QueryTile<E>));
    layout_.weights = place(true, {tiles_, tile_scores_}, sizeof(E));
    layout_.d_weights = place(true, {tiles_, tile_scores_}, sizeof(E));
    layout_.bits = place(true, {tiles_, t_.block_keys}, sizeof(uint64_t));
    const auto scores = static_cast<int64_t>(options_.scores.size());
    layout_.before = place(scores > 0, {scores + 1, tile_scores_}, sizeof(E));
    layout_.parameter_sums = place(
        scores > 0 || wanted_.normalizer_parameters,
        {std::max(wanted_.head_parameter_count, wanted_.normalizer_head_parameter_count), tile_},
        sizeof(E));
    layout_.other_weights = place(true, {tile_scores_}, sizeof(E));
    layout_.rows_t = place(true, {std::max(p_.head_dim, p_.value_dim), tile_}, sizeof(E));
    layout_.d_output_rows_t = place(route_.rounds(), {p_.value_dim, tile_}, sizeof(E));
  }

  // Arrays of a worker: keys and values of a walk over the queries.
  void place_keys() {
    layout_.key = place(!keys_in_place(p_, route_), {plan_.pass_keys, head_stride_}, element_);
    layout_.value = place(!rows_in_place(p_.value, p_.value_dim, route_),
                          {plan_.pass_keys, value_stride_}, element_);
    layout_.forward.prefilter_rows = place(kernels_.prefilter && !keys_in_place(p_, route_),
                                           {kPrefilterGroup, p_.head_dim}, sizeof(E));
    layout_.summed_key =
        place(route_.rounds() && wanted_.query_sums(), {plan_.pass_keys, head_stride_}, element_);
  }

  // Arrays of a worker: weights and score gradients as the operands of a route that rounds. A
  // pipeline has two of each; the first one also serves a block outside the pipeline.
  void place_rounded() {
    const bool rounds = route_.rounds();
    const int64_t unit_scores = tiles_ * tile_scores_;
    layout_.rounded_weights = place(rounds && wanted_.value, {unit_scores}, weight_);
    layout_.rounded_d_scores = place(rounds && wanted_.key, {unit_scores}, weight_);
    layout_.d_scores_of_query = place(rounds && wanted_.query_sums(), {tile_scores_}, weight_);
    const auto place_second = [&](size_t(&both)[2], size_t first, int64_t count, size_t size) {
      both[0] = first;
      both[1] = place(kernels_.gradient_stage && first != 0, {count}, size);
    };
    GradientPipelineScratch& pipeline = layout_.pipeline;
    place_second(pipeline.weights_of_keys, layout_.rounded_weights, unit_scores, weight_);
    place_second(pipeline.d_scores_of_keys, layout_.rounded_d_scores, unit_scores, weight_);
    place_second(pipeline.d_scores_of_query, layout_.d_scores_of_query, tile_scores_, weight_);
    place_second(pipeline.bits, layout_.bits, tiles_ * t_.block_keys, sizeof(uint64_t));
  }

  // Arrays of a worker: rows of queries and d_output, and sums for results that are not dense.
  void place_rows() {
    const bool adds_biases = p_.rows.adds_biases;
    layout_.dense_d_key =
        place(wanted_.key && !narrower_, {plan_.longest_chunk, p_.head_dim}, sizeof(E));
    layout_.dense_d_value =
        place(wanted_.value && !narrower_, {plan_.longest_chunk, p_.value_dim}, sizeof(E));
    layout_.query_rows = place(wanted_.key || wanted_.key_rows, {unit_, head_stride_}, element_);
    layout_.position_rows = place(wanted_.key_rows && adds_biases, {unit_, head_stride_}, element_);
    layout_.d_output_rows = place(wanted_.value || wanted_.value_rows || kernels_.normalizer.settle,
                                  {unit_, value_stride_}, element_);
    const bool separate_sums = wanted_.query_sums() && adds_biases;
    layout_.content_sums = place(separate_sums, {unit_, p_.head_dim}, sizeof(E));
    layout_.position_sums = place(separate_sums, {unit_, p_.head_dim}, sizeof(E));
  }

  // Arrays of a worker: scratch of the recomputed scores, and of sparse normalisers.
  void place_forward_worker(int64_t mask_slots) {
    const NormalizerKernels<E>& normalizer = kernels_.normalizer;
    ScratchLayout& forward = layout_.forward;
    forward.relative = RelativeScratch(p_, t_.block_keys, tile_, t_.lanes, places_);
    forward.exact = ExactScratch(p_, route_, t_.block_keys, tile_, places_);
    forward.row_transform = place(
        p_.rows.any(),
        {static_cast<int64_t>(RowTransformer<E>::bytes_for(kernels_.table, p_.rows, p_.head_dim))},
        1);
    layout_.slope_sums = place(normalizer.add_slopes, {2, 4, tile_}, sizeof(E));
    if (normalizer.find_cut)
      layout_.cut_capacity =
          normalizer.cut_capacity(options_.normalizer.object, plan_.longest_key, t_.block_keys);
    const bool cuts = layout_.cut_capacity > 0;
    const int64_t stride = list_stride(layout_.cut_capacity, t_.lanes);
    layout_.cut_scores = place(cuts, {tile_, stride}, sizeof(E));
    layout_.cut_keys = place(cuts, {tile_, stride}, sizeof(int32_t));
    layout_.cut_counts = place(cuts, {2, tile_}, sizeof(int32_t));
    layout_.pairs = place(pairs_, {tile_scores_}, sizeof(SparsePair<E>));
    forward.rows = place(true, {kTileRows * t_.max_vectors * t_.lanes}, sizeof(E));
    forward.masks = place(mask_slots > 0, {mask_slots}, sizeof(BoundMask));
    forward.kept = place(p_.drop_below > 0, {t_.block_keys}, sizeof(uint64_t));
  }

  const Problem& p_;
  const WantedGradients& wanted_;
  const BackwardPlan& plan_;
  const Tiling& t_;
  const AttentionOptions& options_;
  const Kernels<E>& kernels_;
  const RouteKernels<E>& route_;
  const size_t element_, weight_, stored_;    // bytes: route's element, its weight, inputs' dtype
  const int64_t head_stride_, value_stride_;  // of packed rows
  const int64_t unit_, tiles_, tile_;  // queries of a work unit, its tiles, queries of a tile
  const int64_t tile_scores_;          // scores of a tile and a block
  const bool pairs_;                   // are gradients computed pair by pair?
  const bool narrower_;                // are results narrower than their sums?
  BackwardLayout layout_ = {};
  ScratchPlaces places_;
};

}  // namespace

template <class E>
BackwardLayout backward_layout(const Problem& p, const WantedGradients& wanted,
                               const BackwardPlan& plan, const AttentionOptions& options,
                               const Kernels<E>& kernels, int64_t mask_slots) {
  return BackwardLayoutPlanner<E>(p, wanted, plan, options, kernels).layout(mask_slots);
}

template BackwardLayout backward_layout(const Problem&, const WantedGradients&, const BackwardPlan&,
                                        const AttentionOptions&, const Kernels<float>&, int64_t);
template BackwardLayout backward_layout(const Problem&, const WantedGradients&, const BackwardPlan&,
                                        const AttentionOptions&, const Kernels<double>&, int64_t);

}  // namespace rapt
