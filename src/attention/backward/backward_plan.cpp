// Plans a backward call: its components, parts and workers.
#include "attention/backward/backward_plan.h"

#include <algorithm>
#include <numeric>

#include "rapt/instruction_sets.h"

namespace rapt {
namespace {

// The fewest queries and keys of a part. A cell of 512 queries and 512 keys takes about 2 ms at
// head_dim 64, which pays for the synchronisation of workers after it.
constexpr int64_t kPartLength = 512;

// Chunks begin at multiples of this; it is even because some products take keys in pairs. If they
// began at whole blocks, the last chunk could be so short that its worker waits for the others.
constexpr int64_t kChunkStep = 8;

// The most parts, and so the most workers, of one head.
constexpr int64_t kMostParts = 32;

// Keys of a block. The scores of a tile and their gradients, [96][48] f32 each, fit the L1; so do
// those of tile registers, [96][32], with their rounded copies. Those of the dot route, [96][64],
// fit the L2 with their rounded copies. A multiple of the rows of every register tile.
constexpr int64_t kBlockKeys = 96;

// Queries of a work unit. Their sum for a key is made in registers, so more queries cost fewer
// additions to memory; fewer queries keep the tiles of weights in the nearest caches.
constexpr int64_t kUnitQueries = 64;

// The share of the L2 that K, V and the sums of dK and dV of a walk over the queries fill. The five
// matrices of the queries stream through the rest.
constexpr double kShareOfL2 = 3.0 / 8;
constexpr int64_t kMostPassBlocks = 16;
constexpr int64_t kLeastL2 = 512 << 10;

// With at least this many items per worker, or a number of items that divides evenly among the
// workers, each worker computes whole items. Otherwise all workers share one item at a time,
// because most workers would wait for the last item.
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

// The heads along a leading dimension that are computed.
HeadRange heads_along(const Problem& p, const BackwardPlan& plan, int dimension) {
  const bool part = dimension + 1 == p.leading_rank && plan.heads.count > 0;
  return part ? plan.heads : HeadRange{0, p.leading[dimension]};
}

// Whether the heads of a component that share a matrix follow one another.
bool in_a_row(const Problem& p, const BackwardPlan& plan, const Sharing& s) {
  bool inner = false;
  for (int i = 0; i < p.leading_rank; ++i) {
    if (inner && s.divisor[i] != plan.block[i]) return false;
    inner |= s.divisor[i] > 1;
  }
  return true;
}

// The matrix of a head; both are counted within a component.
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

namespace {

// Finds the leading dimensions along which each input is shared, and from these the components.
void plan_components(const CheckedCall& call, const WantedGradients& wanted, BackwardPlan& plan) {
  const Problem& p = call.problem;
  const TensorView& query = call.query;
  plan.sharing[kOfQuery] = sharing_of(p, query, wanted.query_sums());
  plan.sharing[kOfKey] = sharing_of(p, call.key, wanted.key);
  plan.sharing[kOfValue] = sharing_of(p, call.value, wanted.value);
  plan.sharing[kOfBias] = sharing_of(p, wanted.bias ? call.options.bias : query, wanted.bias);
  const RelativePositions& r = call.options.relative;
  plan.sharing[kOfKeyRows] = sharing_of(p, wanted.key_rows ? r.key_rows : query, wanted.key_rows);
  plan.sharing[kOfQueryRows] =
      sharing_of(p, wanted.query_rows ? r.query_rows : query, wanted.query_rows);
  plan.sharing[kOfValueRows] =
      sharing_of(p, wanted.value_rows ? r.value_rows : query, wanted.value_rows);
  plan.heads = wanted.heads;
  plan.components = 1;
  for (int i = 0; i < p.leading_rank; ++i) {
    plan.block[i] = 1;
    for (const Sharing& s : plan.sharing) plan.block[i] = std::lcm(plan.block[i], s.divisor[i]);
    plan.component_heads *= plan.block[i];
    plan.components *= heads_along(p, plan, i).count / std::max<int64_t>(plan.block[i], 1);
  }
  for (int o = 0; o < kGradientOperands; ++o)
    plan.slots[o] = in_a_row(p, plan, plan.sharing[o]) ? 1 : matrices(p, plan, plan.sharing[o]);
}

// Cuts sequences into segments and chunks, and finds the longest of each.
void plan_parts(const Problem& p, BackwardPlan& plan) {
  const Tiling& t = plan.tiling;
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
}

// Chooses the number of workers, and the size of a task.
void plan_workers(const Problem& p, const WantedGradients& wanted, const Workers& workers,
                  BackwardPlan& plan) {
  Tiling& t = plan.tiling;
  t.to_executor = workers.to_executor();
  // With distance tables, all sequences add to the same tables.
  plan.items = wanted.tables() ? plan.components : plan.components * p.sequences;
  const int64_t tasks = wanted.two_passes ? plan.components * plan.cells_per_head : plan.items;
  const int most = workers.worthwhile();
  plan.workers_share_component = !wanted.two_passes && most > 1 && plan.most_parts > 1 &&
                                 plan.items < kItemsPerWorker * most && plan.items % most != 0;
  plan.workers = workers.of_tasks(plan.workers_share_component ? plan.most_parts : tasks);
  t.workers = plan.workers;
  plan.items_per_task = workers.items_per_task(tasks, plan.workers);
}

}  // namespace

template <class E>
BackwardPlan backward_plan(const CheckedCall& call, const WantedGradients& wanted,
                           const PreparedCall<E>& prepared) {
  const Problem& p = call.problem;
  const Kernels<E>& kernels = prepared.kernels;
  BackwardPlan plan;
  plan_components(call, wanted, plan);

  plan.tiling = tiling_of_products(kernels);
  Tiling& t = plan.tiling;
  t.block_keys = kBlockKeys;
  const int64_t tile_queries = t.lanes * t.long_vectors;
  t.unit_queries = std::max<int64_t>(1, kUnitQueries / tile_queries) * tile_queries;
  plan_parts(p, plan);

  // Routes that round hold K twice: for the scores and, in another order, for d_query.
  const int64_t element = kernels.route.element_size, copies = kernels.route.rounds() ? 2 : 1;
  const int64_t key_bytes = p.head_dim * (static_cast<int64_t>(sizeof(E)) + copies * element) +
                            p.value_dim * (static_cast<int64_t>(sizeof(E)) + element);
  const auto in_l2 = static_cast<int64_t>(static_cast<double>(l2_bytes()) * kShareOfL2 /
                                          static_cast<double>(key_bytes * kBlockKeys));
  plan.pass_keys = std::clamp<int64_t>(in_l2, 1, kMostPassBlocks) * kBlockKeys;
  plan.pass_keys =
      std::min(plan.pass_keys, round_up(std::max<int64_t>(plan.longest_key, 1), kBlockKeys));

  plan_workers(p, wanted, prepared.workers, plan);
  return plan;
}

template BackwardPlan backward_plan(const CheckedCall&, const WantedGradients&,
                                    const PreparedCall<float>&);
template BackwardPlan backward_plan(const CheckedCall&, const WantedGradients&,
                                    const PreparedCall<double>&);

int64_t first_head(const Problem& p, const BackwardPlan& plan, int64_t component) {
  int64_t head = 0, step = 1;
  for (int i = p.leading_rank - 1; i >= 0; --i) {
    const HeadRange heads = heads_along(p, plan, i);
    const int64_t blocks = heads.count / plan.block[i];
    head += (heads.first + component % blocks * plan.block[i]) * step;
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
    std::fill_n(scratch, count, -1);  // the last head so far that adds to each matrix
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

}  // namespace rapt
