// Runs tangents over work units of queries and parts of keys. Order of work: tangents.h.
#include "attention/tangents/tangents.h"

#include <algorithm>

#include "attention/tangents/tangent_layout.h"
#include "threads/task_run.h"

namespace rapt {

Cuts::Cuts(const Problem& p, bool keys, int64_t length) : p_(p), keys_(keys), length_(length) {
  starts_.push_back(0);
  for (int64_t i = 0; i < p.sequences; ++i) {
    const Sequence s = p.sequence(i);
    starts_.push_back(starts_.back() + ceil_div(keys ? s.k_len : s.q_len, length));
  }
}

Cuts::Part Cuts::operator[](int64_t nth) const noexcept {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), nth);
  const int64_t i = after - starts_.begin() - 1;
  const Sequence s = p_.sequence(i);
  const int64_t begin = (nth - after[-1]) * length_, whole = keys_ ? s.k_len : s.q_len;
  return {i, {begin, 1, std::min(length_, whole - begin)}};
}

namespace {

// Calls work(tiles, matrix, part) for all parts of all `matrices`: heads, or components.
template <class E, class Work>
void for_each_part(TaskRun& run, const TangentCall<E>& call, const Context& context,
                   int64_t matrices, const Cuts& cuts, const Work& work) {
  run.run(matrices * cuts.count(), call.plan.workers, call.plan.tiling.to_executor,
          [&](int64_t task, int worker) {
            TangentTiles<E> tiles(call, context.cancel, worker);
            work(tiles, task / cuts.count(), task % cuts.count());
          });
}

// The index of a part's first query in arrays [heads][q_len].
template <class E>
int64_t place_of(const TangentCall<E>& call, const TangentTiles<E>& tiles, int64_t head,
                 Positions unit) {
  return head * call.problem().q_len + tiles.sequence().query_begin + unit.start;
}

// The gradient with respect to keys or values: the sums of a part of the keys of a component.
template <class E>
struct KeySide {
  bool wanted;
  GradientOf operand;
  const Operand& target;
  int64_t dims;
  const Place<E>& sums;  // [slots][part][dims]; absent if the gradient is not wanted
  E factor;              // applied at the end of the sum
};

// Computes the gradients of a part of the keys of a component.
template <class E>
void run_keys(TangentCall<E>& call, TangentTiles<E>& tiles, int64_t component, int64_t nth) {
  const Problem& p = call.problem();
  const WantedGradients& wanted = call.wanted;
  const Cuts::Part part = call.key_cuts[nth];
  const int64_t length = key_part(call.plan);
  const KeySide<E> sides[] = {
      {wanted.key, kOfKey, call.targets.key, p.head_dim, call.layout.key_sums, E(1)},
      {wanted.value, kOfValue, call.targets.value, p.value_dim, call.layout.value_sums,
       static_cast<E>(p.kept_factor())}};
  const auto slot = [&](const ComponentHead& entry, const KeySide<E>& side) {
    return side.sums.in_or_null(tiles.tiles().scratch(), entry.slot[side.operand] * length);
  };
  for (const ComponentHead& entry : call.heads) {
    if (tiles.stopped()) return;
    const int64_t head = first_head(p, call.plan, component) + entry.head;
    tiles.begin_head(head, part.sequence);
    const int64_t q_len = tiles.sequence().q_len, unit_length = call.plan.tiling.unit_queries;
    if (q_len > 0) tiles.load_keys(part.positions, {0, 1, q_len});
    for (const KeySide<E>& side : sides)
      if (side.wanted && entry.first[side.operand])
        std::fill_n(slot(entry, side), part.positions.count * side.dims, E(0));
    const int64_t cell = head * call.key_cuts.count() + nth;
    const TangentKeySums<E> sums{
        slot(entry, sides[0]), slot(entry, sides[1]),
        call.bias_sums.empty() ? nullptr : &call.bias_sums[static_cast<size_t>(cell)],
        call.score_sums.data() + cell * wanted.head_parameter_count};
    for (int64_t at = 0; at < q_len && !tiles.stopped(); at += unit_length) {
      const Positions unit{at, 1, std::min(unit_length, q_len - at)};
      const int64_t place = place_of(call, tiles, head, unit);
      const KeyRange keys{part.positions.start, part.positions.start + part.positions.count};
      if (tiles.begin_unit_of(unit, keys, call.lse_tangents.data() + place,
                              call.deltas.data() + place, call.delta_tangents.data() + place))
        tiles.add_to_keys(sums);
    }
    for (const KeySide<E>& side : sides)
      if (side.wanted && entry.last[side.operand] && side.target.data)
        call.forward.kernels.table.gradients.store_key_rows[static_cast<int>(side.target.dtype)](
            slot(entry, side), side.dims, part.positions.count, side.dims, side.factor,
            tiles.tiles().key_row(side.target, part.positions.start), side.target.row_stride,
            side.target.dim_stride);
  }
}

// Computes the gradients of a work unit of the queries of a component.
template <class E>
void run_queries(TangentCall<E>& call, TangentTiles<E>& tiles, int64_t component, int64_t nth) {
  const Problem& p = call.problem();
  const Cuts::Part unit = call.query_cuts[nth];
  const int64_t rows = 2 * tiles.unit_queries();
  for (const ComponentHead& entry : call.heads) {
    if (tiles.stopped()) return;
    const int64_t head = first_head(p, call.plan, component) + entry.head;
    tiles.begin_head(head, unit.sequence);
    E* const sums = tiles.tiles().at(call.layout.query_sums, entry.slot[kOfQuery] * rows);
    if (entry.first[kOfQuery]) std::fill_n(sums, rows * p.head_dim, E(0));
    const int64_t place = place_of(call, tiles, head, unit.positions);
    if (tiles.begin_unit_of(unit.positions, tiles.all_keys(), call.lse_tangents.data() + place,
                            call.deltas.data() + place, call.delta_tangents.data() + place))
      tiles.add_to_queries(sums);
    if (!entry.last[kOfQuery]) continue;
    const double dots = tiles.store_queries(unit.positions, sums);
    if (call.wanted.scale)
      call.scale_sums[static_cast<size_t>(head * call.query_cuts.count() + nth)] = dots;
  }
}

// Adds up the sums of all parts, in the order of heads and parts.
template <class E>
void add_parts(const TangentCall<E>& call) {
  const Problem& p = call.problem();
  const GradientTargets& targets = call.targets;
  if (targets.scale)
    for (const double sum : call.scale_sums) *targets.scale += sum;
  const int64_t parts = call.key_cuts.count();
  if (targets.score_parameters.data)
    add_parameter_gradients(p, call.forward.score_functions, parts, call.score_sums.data(),
                            targets.score_parameters);
  if (call.bias_sums.empty() || !targets.bias.data) return;
  for (int64_t head = 0; head < p.heads; ++head) {
    int64_t index[kMaxRank];
    p.index_of(head, index);
    E& number =
        *reinterpret_cast<E*>(targets.bias.at(targets.bias.offset_of(index, p.leading_rank)));
    double sum = 0;
    for (int64_t i = 0; i < parts; ++i)
      sum += call.bias_sums[static_cast<size_t>(head * parts + i)];
    number += static_cast<E>(sum);
  }
}

}  // namespace

template <class E>
void run_jvp(const TangentCall<E>& call, const Context& context) {
  const int64_t heads = call.problem().heads;
  TaskRun run(context, heads * call.query_cuts.count());
  for_each_part(run, call, context, heads, call.query_cuts,
                [&](TangentTiles<E>& tiles, int64_t head, int64_t nth) {
                  const Cuts::Part unit = call.query_cuts[nth];
                  tiles.begin_head(head, unit.sequence);
                  tiles.compute_state_tangents(unit.positions);
                });
}

template <class E>
void run_backward_jvp(TangentCall<E>& call, const Context& context) {
  const Problem& p = call.problem();
  const WantedGradients& wanted = call.wanted;
  const int64_t components = call.plan.components, units = call.query_cuts.count();
  const auto rows = static_cast<size_t>(p.heads * p.q_len);
  call.lse_tangents.resize(rows), call.deltas.resize(rows);
  call.delta_tangents.resize(rows);
  const auto cells = static_cast<size_t>(p.heads * call.key_cuts.count());
  if (wanted.scale) call.scale_sums.resize(static_cast<size_t>(p.heads * units));
  if (wanted.score_parameters)
    call.score_sums.resize(cells * static_cast<size_t>(wanted.head_parameter_count));
  const Operand& bias = call.targets.bias;
  const bool by_row = bias.data && bias.row_stride != 0, by_key = bias.data && bias.dim_stride != 0;
  if (wanted.bias && !by_row && !by_key) call.bias_sums.resize(cells);
  call.heads.resize(static_cast<size_t>(call.plan.component_heads));
  std::vector<int64_t> order(call.heads.size());
  order_heads(p, call.plan, call.heads.data(), order.data());

  const bool keys =
      wanted.key || wanted.value || wanted.score_parameters || (wanted.bias && (by_key || !by_row));
  const bool queries = wanted.query || wanted.scale || (by_row && !by_key);
  TaskRun run(context, p.heads * units + components * (keys ? call.key_cuts.count() : 0) +
                           components * (queries ? units : 0));
  for_each_part(run, call, context, p.heads, call.query_cuts,
                [&](TangentTiles<E>& tiles, int64_t head, int64_t nth) {
                  const Cuts::Part unit = call.query_cuts[nth];
                  tiles.begin_head(head, unit.sequence);
                  const int64_t place = place_of(call, tiles, head, unit.positions);
                  tiles.compute_row_values(unit.positions, call.lse_tangents.data() + place,
                                           call.deltas.data() + place,
                                           call.delta_tangents.data() + place);
                });
  if (keys)
    for_each_part(run, call, context, components, call.key_cuts,
                  [&](TangentTiles<E>& tiles, int64_t component, int64_t nth) {
                    run_keys(call, tiles, component, nth);
                  });
  if (queries)
    for_each_part(run, call, context, components, call.query_cuts,
                  [&](TangentTiles<E>& tiles, int64_t component, int64_t nth) {
                    run_queries(call, tiles, component, nth);
                  });
  add_parts(call);
}

template void run_jvp(const TangentCall<float>&, const Context&);
template void run_jvp(const TangentCall<double>&, const Context&);
template void run_backward_jvp(TangentCall<float>&, const Context&);
template void run_backward_jvp(TangentCall<double>&, const Context&);

}  // namespace rapt
