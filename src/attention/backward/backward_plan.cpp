// Parts, components and the layout of scratch memory of a backward call.
#include "attention/backward/backward_plan.h"

#include <algorithm>
#include <numeric>

#include "attention/backward/sparse_pairs.h"
#include "attention/plan/scratch_places.h"
#include "attention/rows/row_transformer.h"
#include "attention/tiles/prefilter.h"
#include "attention/tiles/query_tile.h"
#include "rapt/instruction_sets.h"

namespace rapt {
namespace {

// Queries and keys of a part, at least: enough work (some 2 ms at head_dim 64 and a part of as many
// queries) to pay for meeting the other workers after it.
constexpr int64_t kPartLength = 512;

// Where chunks may begin: even, as pairs of keys demand. At whole blocks the last chunk would be so
// short that the worker who has it waits for the others.
constexpr int64_t kChunkStep = 8;

// Parts at most, and so workers of one head.
constexpr int64_t kMostParts = 32;

// Keys of a block: the scores and their gradients of a tile, [96][48] f32 each, fit the L1, as do
// those of tile registers, [96][32], and what is rounded of them (those of the dot route, [96][64],
// and their rounded copies the L2); a multiple of the rows of every register tile.
constexpr int64_t kBlockKeys = 96;

// Queries of a unit: their sum for a key is made in registers, so more of them cost fewer additions
// to memory; fewer keep the tiles of weights in the near caches.
constexpr int64_t kUnitQueries = 64;

// K, V and the sums of dK and dV of a walk over the queries fill so much of the L2; the five
// matrices of the queries stream by.
constexpr double kShareOfL2 = 3.0 / 8;
constexpr int64_t kMostPassBlocks = 16;
constexpr int64_t kLeastL2 = 512 << 10;

// Operations of a task, at least, as in tiling.cpp.
constexpr double kWorkOfTask = 4e6;

// Components per worker from which each is given to one of them: fewer, and the last one would keep
// the others waiting.
constexpr int64_t kItemsPerWorker = 4;

int64_t l2_bytes() {
  static const int64_t bytes = std::max<int64_t>(cache_sizes().l2, kLeastL2);
  return bytes;
}

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

Sharing sharing_of(const Problem& p, const TensorView& view, bool wanted) {
  Sharing s;
  const int missing = p.leading_rank - (view.rank - 2);
  for (int i = 0; i < p.leading_rank; ++i) {
    const int64_t n = i < missing ? 1 : view.shape[i - missing];
    s.divisor[i] = wanted && p.leading[i] > n ? p.leading[i] / n : 1;
  }
  return s;
}

// Do the heads of a component that share a matrix come one after the other?
bool in_a_row(const Problem& p, const BackwardPlan& plan, const Sharing& s) {
  bool inner = false;
  for (int i = 0; i < p.leading_rank; ++i) {
    if (inner && s.divisor[i] != plan.block[i]) return false;
    inner |= s.divisor[i] > 1;
  }
  return true;
}

// The matrix of a head, both counted within a component.
int64_t matrix_of(const Problem& p, const BackwardPlan& plan, const Sharing& s, int64_t nth) {
  int64_t matrix = 0, step = 1;
  for (int i = p.leading_rank - 1; i >= 0; --i) {
    matrix += nth % plan.block[i] / s.divisor[i] * step;
    step *= plan.block[i] / s.divisor[i];
    nth /= plan.block[i];
  }
  return matrix;
}

int64_t matrices(const Problem& p, const BackwardPlan& plan, const Sharing& s) {
  int64_t count = 1;
  for (int i = 0; i < p.leading_rank; ++i) count *= plan.block[i] / s.divisor[i];
  return count;
}

}  // namespace

Positions Parts::part(int64_t nth, int64_t whole, int64_t step) const {
  const auto begin_of = [&](int64_t part) {
    return part == count ? whole : part * whole / count / step * step;
  };
  return {begin_of(nth), 1, begin_of(nth + 1) - begin_of(nth)};
}
Positions Parts::segment(int64_t nth) const { return part(nth, q_len, grain); }
Positions Parts::chunk(int64_t nth) const { return part(nth, k_len, kChunkStep); }

Parts parts_of(const Tiling& t, int64_t q_len, int64_t k_len) {
  return {std::clamp<int64_t>(std::min(q_len, k_len) / kPartLength, 1, kMostParts), q_len, k_len,
          t.grain};
}

template <class E>
BackwardPlan backward_plan(const Problem& p, const WantedGradients& wanted,
                           const Kernels<E>& kernels, const TensorView& query,
                           const TensorView& key, const TensorView& value,
                           const AttentionOptions& options, double work, const Workers& available) {
  BackwardPlan plan;
  plan.sharing[kOfQuery] = sharing_of(p, query, wanted.query_sums());
  plan.sharing[kOfKey] = sharing_of(p, key, wanted.key);
  plan.sharing[kOfValue] = sharing_of(p, value, wanted.value);
  plan.sharing[kOfBias] = sharing_of(p, wanted.bias ? options.bias : query, wanted.bias);
  const RelativePositions& r = options.relative;
  plan.sharing[kOfKeyRows] = sharing_of(p, wanted.key_rows ? r.key_rows : query, wanted.key_rows);
  plan.sharing[kOfQueryRows] =
      sharing_of(p, wanted.query_rows ? r.query_rows : query, wanted.query_rows);
  plan.sharing[kOfValueRows] =
      sharing_of(p, wanted.value_rows ? r.value_rows : query, wanted.value_rows);
  plan.components = 1;
  for (int i = 0; i < p.leading_rank; ++i) {
    plan.block[i] = 1;
    for (const Sharing& s : plan.sharing) plan.block[i] = std::lcm(plan.block[i], s.divisor[i]);
    plan.component_heads *= plan.block[i];
    plan.components *= p.leading[i] / std::max<int64_t>(plan.block[i], 1);
  }
  for (int o = 0; o < kGradientOperands; ++o)
    plan.slots[o] = in_a_row(p, plan, plan.sharing[o]) ? 1 : matrices(p, plan, plan.sharing[o]);

  Tiling& t = plan.tiling;
  t.lanes = kernels.table.lanes;
  t.grain = int64_t{t.lanes} * kernels.route.grain;
  t.max_vectors = kernels.route.widest();
  t.long_vectors = kernels.route.long_vectors;
  t.step = kernels.route.step;
  t.block_keys = kBlockKeys;
  const int64_t tile_queries = t.lanes * t.long_vectors;
  t.unit_queries = std::max<int64_t>(1, kUnitQueries / tile_queries) * tile_queries;
  for (int64_t s = 0; s < p.sequences; ++s) {
    const Sequence sequence = p.sequence(s);
    const Parts parts = parts_of(t, sequence.q_len, sequence.k_len);
    plan.longest_query = std::max(plan.longest_query, t.padded(sequence.q_len));
    plan.longest_key = std::max(plan.longest_key, sequence.k_len);
    int64_t longest_segment = 0;
    for (int64_t part = 0; part < parts.count; ++part) {
      plan.longest_chunk = std::max(plan.longest_chunk, parts.chunk(part).count);
      longest_segment = std::max(longest_segment, parts.segment(part).count);
    }
    plan.window_rows = std::max(plan.window_rows, t.padded(longest_segment));
    plan.cells_per_head += parts.count;
    plan.most_parts = std::max(plan.most_parts, parts.count);
  }
  plan.window_rows = std::min(p.relative.distances, plan.window_rows + plan.longest_chunk);
  // Routes that round have K twice: for the scores and, in another order, for d_query.
  const int64_t element = kernels.route.element_size, copies = kernels.route.rounds() ? 2 : 1;
  const int64_t key_bytes = p.head_dim * (static_cast<int64_t>(sizeof(E)) + copies * element) +
                            p.value_dim * (static_cast<int64_t>(sizeof(E)) + element);
  const auto in_l2 = static_cast<int64_t>(static_cast<double>(l2_bytes()) * kShareOfL2 /
                                          static_cast<double>(key_bytes * kBlockKeys));
  plan.pass_keys = std::clamp<int64_t>(in_l2, 1, kMostPassBlocks) * kBlockKeys;
  plan.pass_keys =
      std::min(plan.pass_keys, round_up(std::max<int64_t>(plan.longest_key, 1), kBlockKeys));

  const double worth = worthwhile_workers(work);
  plan.workers = worth < available.most ? static_cast<int>(worth) : available.most;
  t.to_executor = worth >= 2;
  // Sequences add to the same tables.
  plan.items = wanted.tables() ? plan.components : plan.components * p.sequences;
  const int64_t tasks = wanted.two_passes ? plan.components * plan.cells_per_head : plan.items;
  plan.together = !wanted.two_passes && plan.workers > 1 && plan.most_parts > 1 &&
                  plan.items < kItemsPerWorker * plan.workers && plan.items % plan.workers != 0;
  plan.workers = static_cast<int>(
      std::clamp<int64_t>(plan.together ? plan.most_parts : tasks, 1, plan.workers));
  if (!available.can_be_fewer) plan.workers = t.to_executor ? available.most : 1;
  t.workers = plan.workers;
  if (tasks > 1) {
    const double per_task = kWorkOfTask * static_cast<double>(tasks) / std::max(work, 1.0);
    const int64_t most = std::max<int64_t>(1, tasks / (4 * plan.workers));
    plan.items_per_task = per_task < static_cast<double>(most)
                              ? std::max<int64_t>(1, static_cast<int64_t>(per_task))
                              : most;
  }
  return plan;
}

template BackwardPlan backward_plan(const Problem&, const WantedGradients&, const Kernels<float>&,
                                    const TensorView&, const TensorView&, const TensorView&,
                                    const AttentionOptions&, double, const Workers&);
template BackwardPlan backward_plan(const Problem&, const WantedGradients&, const Kernels<double>&,
                                    const TensorView&, const TensorView&, const TensorView&,
                                    const AttentionOptions&, double, const Workers&);

int64_t first_head(const Problem& p, const BackwardPlan& plan, int64_t component) {
  int64_t head = 0, step = 1;
  for (int i = p.leading_rank - 1; i >= 0; --i) {
    const int64_t blocks = p.leading[i] / plan.block[i];
    head += component % blocks * plan.block[i] * step;
    component /= blocks;
    step *= p.leading[i];
  }
  return head;
}

void order_heads(const Problem& p, const BackwardPlan& plan, ComponentHead* heads,
                 int64_t* scratch) {
  const int64_t count = plan.component_heads;
  for (int64_t nth = 0; nth < count; ++nth) {
    ComponentHead& h = heads[nth];
    h.head = 0;
    int64_t rest = nth, step = 1;
    for (int i = p.leading_rank - 1; i >= 0; --i) {
      h.head += rest % plan.block[i] * step;
      rest /= plan.block[i];
      step *= p.leading[i];
    }
    for (int o = 0; o < kGradientOperands; ++o)
      h.slot[o] = matrix_of(p, plan, plan.sharing[o], nth);
  }
  for (int o = 0; o < kGradientOperands; ++o) {
    std::fill_n(scratch, count, -1);  // the last head so far that adds to a matrix
    for (int64_t i = 0; i < count; ++i) {
      int64_t& before = scratch[heads[i].slot[o]];
      heads[i].first[o] = before < 0;
      heads[i].last[o] = true;
      if (before >= 0) heads[before].last[o] = false;
      before = i;
    }
    if (plan.slots[o] == 1)
      for (int64_t i = 0; i < count; ++i) heads[i].slot[o] = 0;
  }
}

template <class E>
BackwardLayout backward_layout(const Problem& p, const WantedGradients& wanted,
                               const BackwardPlan& plan, const AttentionOptions& options,
                               const Kernels<E>& kernels, int64_t mask_slots) {
  BackwardLayout layout = {};
  ScratchPlaces places;
  const auto place = [&](bool needed, std::initializer_list<int64_t> shape, size_t element) {
    return places.place(needed, shape, element);
  };
  const Tiling& t = plan.tiling;
  const bool two = wanted.two_passes;
  const bool query_sums = wanted.query_sums();
  const bool narrower = wanted.dtype != p.result_dtype;
  const RouteKernels<E>& route = kernels.route;
  const auto element = static_cast<size_t>(route.element_size);
  const auto weight = static_cast<size_t>(route.weight_size);
  const bool rounds = route.rounds();
  const int64_t head_stride = packed_stride(p.head_dim, t.step);
  const int64_t value_stride = packed_stride(p.value_dim, t.step);
  const auto bias_length = [&](int from_end) {
    const int at_dim = options.bias.rank - from_end;
    return at_dim < 0 ? 1 : options.bias.shape[at_dim];
  };
  const bool bias_number = wanted.bias && bias_length(1) == 1 && bias_length(2) == 1;
  layout.heads = place(true, {plan.component_heads}, sizeof(ComponentHead));
  layout.head_scratch = place(true, {plan.component_heads}, sizeof(int64_t));
  layout.cell_starts = place(p.query_starts, {p.sequences + 1}, sizeof(int64_t));
  const int64_t delta_rows = kernels.normalizer.delta_rows;
  layout.deltas = place(two, {p.heads, delta_rows, p.q_len}, sizeof(E));
  layout.scale_sums = place(wanted.scale, {p.heads, plan.cells_per_head}, sizeof(double));
  layout.score_sums =
      place(wanted.scores, {p.heads, plan.cells_per_head, wanted.head_numbers}, sizeof(double));
  layout.normalizer_sums =
      place(wanted.normalizer, {p.heads, plan.cells_per_head, wanted.normalizer_head_numbers},
            sizeof(double));
  layout.shift_sums =
      place(wanted.shifts(), {p.heads, plan.cells_per_head, 2, p.head_dim}, sizeof(double));
  layout.bias_sums = place(bias_number, {p.heads, plan.cells_per_head}, sizeof(double));

  const auto stored = static_cast<size_t>(size_of(p.dtype));
  layout.scores.angles = place(p.rows.any(), {static_cast<int64_t>(row_change_bytes(p.rows))}, 1);
  layout.scores.relative_starts =
      place(p.relative.log_scale(), {p.relative.distances}, sizeof(int64_t));
  layout.scores.changed_key =
      place(p.rows.changes_key, {p.rows.copied_matrices, p.k_len, p.head_dim}, stored);

  const int64_t key_rows = kernels.sieve ? KeyMatrices(p, p.key).count * sieve_rows(p.k_len) : 0;
  layout.scores.sieve_keys = place(kernels.sieve, {key_rows, sieve_dims(p.head_dim)}, 1);
  layout.scores.sieve_groups = place(kernels.sieve, {key_rows / kSieveGroup}, sizeof(KeyGroup));

  const bool pairs = has_sparse_pairs(p, kernels, options);
  // Of all queries and keys of a component at work; in two passes, of a unit and a chunk.
  const auto place_sums = [&](int64_t queries, int64_t keys) {
    layout.query_t = place(true, {queries, head_stride}, element);
    layout.changed_query = place(p.rows.any(), {queries, p.head_dim}, stored);
    layout.position_t = place(p.rows.shifted, {queries, head_stride}, element);
    layout.position_query = place(p.rows.shifted, {queries, p.head_dim}, stored);
    layout.sieve_queries = place(kernels.sieve, {queries, sieve_query_bytes(p.head_dim)}, 1);
    layout.d_output_t = place(true, {queries, value_stride}, element);
    layout.d_query_t = place(query_sums, {plan.slots[kOfQuery], queries, p.head_dim}, sizeof(E));
    layout.kept_pairs = place(pairs && !two, {queries, kKeptPairs}, sizeof(SparsePair<E>));
    layout.kept_counts = place(pairs && !two, {queries}, sizeof(int64_t));
    layout.d_query_pairs =
        place(query_sums && pairs, {plan.slots[kOfQuery], queries, p.head_dim}, sizeof(E));
    layout.query_dots =
        place(wanted.scale && p.rows.shifted, {plan.slots[kOfQuery], queries}, sizeof(E));
    layout.statistic = place(true, {queries}, sizeof(E));
    layout.delta = place(true, {delta_rows, queries}, sizeof(E));
    layout.d_key = place(wanted.key && narrower, {plan.slots[kOfKey], keys, p.head_dim}, sizeof(E));
    layout.d_value =
        place(wanted.value && narrower, {plan.slots[kOfValue], keys, p.value_dim}, sizeof(E));
  };
  layout.slots = places.bytes();
  if (!two) {
    places.restart();
    place_sums(plan.longest_query, plan.longest_key);
    const auto windows = [&](bool needed, int64_t dims) {
      return place(needed, {plan.most_parts, plan.window_rows, dims}, sizeof(E));
    };
    layout.key_windows = windows(wanted.key_rows, p.head_dim);
    layout.query_windows = windows(wanted.query_rows_sums, p.head_dim);
    layout.value_windows = windows(wanted.value_rows, p.value_dim);
    layout.slot_bytes = places.bytes();
    places.repeat(plan.together ? 1 : plan.workers, layout.slots);
  }

  const size_t workers = places.bytes();
  places.restart();
  const int64_t unit = std::min(t.unit_queries, plan.longest_query);
  const Tiling::Cut cut = t.cut(unit);
  const int64_t tile = std::min<int64_t>(unit, t.max_vectors * t.lanes);
  const int64_t tile_scores = t.block_keys * tile;
  if (two) place_sums(unit, plan.longest_chunk);
  layout.tiles = place(true, {cut.tiles}, sizeof(QueryTile<E>));
  layout.weights = place(true, {cut.tiles, tile_scores}, sizeof(E));
  layout.d_weights = place(true, {cut.tiles, tile_scores}, sizeof(E));
  layout.bits = place(true, {cut.tiles, t.block_keys}, sizeof(uint64_t));
  const auto scores = static_cast<int64_t>(options.scores.size());
  layout.before = place(scores > 0, {scores + 1, tile_scores}, sizeof(E));
  layout.parameter_sums =
      place(scores > 0 || wanted.normalizer,
            {std::max(wanted.head_numbers, wanted.normalizer_head_numbers), tile}, sizeof(E));
  layout.other_weights = place(true, {tile_scores}, sizeof(E));
  layout.rows_t = place(true, {std::max(p.head_dim, p.value_dim), tile}, sizeof(E));
  layout.d_output_rows_t = place(rounds, {p.value_dim, tile}, sizeof(E));
  layout.key = place(!keys_in_place(p, route), {plan.pass_keys, head_stride}, element);
  layout.value =
      place(!rows_in_place(p.value, p.value_dim, route), {plan.pass_keys, value_stride}, element);
  layout.scores.sieve_rows =
      place(kernels.sieve && !keys_in_place(p, route), {kSieveGroup, p.head_dim}, sizeof(E));
  layout.summed_key = place(rounds && query_sums, {plan.pass_keys, head_stride}, element);
  layout.rounded_weights = place(rounds && wanted.value, {cut.tiles, tile_scores}, weight);
  layout.rounded_d_scores = place(rounds && wanted.key, {cut.tiles, tile_scores}, weight);
  layout.d_scores_of_query = place(rounds && query_sums, {tile_scores}, weight);
  // The first of two is that of a block on its own.
  const auto place_second = [&](size_t(&both)[2], size_t first, int64_t count, size_t size) {
    both[0] = first;
    both[1] = place(kernels.gradient_stage && first != 0, {count}, size);
  };
  StagedGradientScratch& staged = layout.staged;
  place_second(staged.weights_of_keys, layout.rounded_weights, cut.tiles * tile_scores, weight);
  place_second(staged.d_scores_of_keys, layout.rounded_d_scores, cut.tiles * tile_scores, weight);
  place_second(staged.d_scores_of_query, layout.d_scores_of_query, tile_scores, weight);
  place_second(staged.bits, layout.bits, cut.tiles * t.block_keys, sizeof(uint64_t));
  layout.staged_key = place(wanted.key && !narrower, {plan.longest_chunk, p.head_dim}, sizeof(E));
  layout.staged_value =
      place(wanted.value && !narrower, {plan.longest_chunk, p.value_dim}, sizeof(E));
  layout.query_rows = place(wanted.key || wanted.key_rows, {unit, head_stride}, element);
  layout.position_rows = place(wanted.key_rows && p.rows.shifted, {unit, head_stride}, element);
  layout.d_output_rows = place(wanted.value || wanted.value_rows || kernels.normalizer.settle,
                               {unit, value_stride}, element);
  const bool apart = query_sums && p.rows.shifted;
  layout.content_sums = place(apart, {unit, p.head_dim}, sizeof(E));
  layout.position_sums = place(apart, {unit, p.head_dim}, sizeof(E));
  layout.scores.relative = RelativeScratch(p, t.block_keys, tile, t.lanes, places);
  layout.scores.exact = ExactScratch(p, route, t.block_keys, tile, places);
  layout.scores.row_change =
      place(p.rows.any(),
            {static_cast<int64_t>(RowChanger<E>::bytes_for(kernels.table, p.rows, p.head_dim))}, 1);
  layout.slope_sums = place(kernels.normalizer.add_slopes, {2, 4, tile}, sizeof(E));
  if (kernels.normalizer.find_cut)
    layout.cut_capacity =
        kernels.normalizer.cut_capacity(options.normalizer.object, plan.longest_key, t.block_keys);
  const bool cuts = layout.cut_capacity > 0;
  const int64_t stride = list_stride(layout.cut_capacity, t.lanes);
  layout.cut_scores = place(cuts, {tile, stride}, sizeof(E));
  layout.cut_keys = place(cuts, {tile, stride}, sizeof(int32_t));
  layout.cut_counts = place(cuts, {2, tile}, sizeof(int32_t));
  layout.pairs = place(pairs, {tile_scores}, sizeof(SparsePair<E>));
  layout.scores.rows = place(true, {6 * t.max_vectors * t.lanes}, sizeof(E));
  layout.scores.masks = place(mask_slots > 0, {mask_slots}, sizeof(BoundMask));
  layout.scores.kept = place(p.drop_below > 0, {t.block_keys}, sizeof(uint64_t));
  layout.scores.workers = workers;
  layout.scores.worker_bytes = places.bytes();
  places.repeat(plan.workers, workers);
  layout.bytes = places.total();
  return layout;
}

template BackwardLayout backward_layout(const Problem&, const WantedGradients&, const BackwardPlan&,
                                        const AttentionOptions&, const Kernels<float>&, int64_t);
template BackwardLayout backward_layout(const Problem&, const WantedGradients&, const BackwardPlan&,
                                        const AttentionOptions&, const Kernels<double>&, int64_t);

}  // namespace rapt
