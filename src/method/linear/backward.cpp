// The backward pass, in two sweeps per head.
//
//   1  keys are summed, in order; queries in lanes: sum of weights D, its gradient, d_query
//   2  queries are summed, backwards if causal; keys in lanes: d_key, d_value
//
// With n = d_output / D and e = (d_lse - d_output . output) / D:
//
//   d_phi(q_i) = sum_j phi(k_j) (v_j . n_i + e_i)
//   d_phi(k_j) = sum_i phi(q_i) (v_j . n_i + e_i)      d_v_j = sum_i (phi(q_i) . phi(k_j)) n_i
//
// Without division, n = d_output and e = 0. The powers of features and of rows are left out of D:
// queries enter the second sums with minus the power of their row.
#include "method/linear/linear_layout.h"
#include "method/linear/linear_passes.h"

namespace rapt {
namespace {

// The rows from `first` on.
std::byte* rows_at(const TensorView& matrix, int64_t first) noexcept {
  return static_cast<std::byte*>(matrix.data) + first * matrix.strides[0] * size_of(matrix.dtype);
}

// What a head at work has.
template <class E>
struct HeadGradients {
  SharedHead shared;
  std::byte* memory;
  TensorView query, key, value, output, d_output;
  E *inverse_sums, *d_sums, *query_powers;
};

template <class E>
class LinearBackward {
 public:
  LinearBackward(const LinearCall<E>& c, const LinearLayout<E>& layout,
                 const MethodGradients& gradients, std::byte* scratch)
      : c_(c),
        layout_(layout),
        g_(gradients),
        scratch_(scratch),
        shared_(c.call, gradients.wanted) {}

  void run() {
    const LinearThreads& threads = layout_.threads;
    if (!threads.share_heads) {
      TaskRun run(c_.call.context, shared_.components());
      run.run(shared_.components(), threads.workers, threads.to_executor,
              [&](int64_t task, int worker) noexcept {
                std::byte* const scratch = layout_.workers.nth(scratch_, worker);
                run_component(task, worker,
                              [&](const SweepShape& shape, ChunkSums<E>& sums, const auto& visit) {
                                sweep_alone(c_, shape, layout_.sweep, sums, scratch, visit);
                              });
              });
      return;
    }
    const FeatureRanges ranges(c_.model.features, threads.workers);
    int64_t tasks = 0;
    for (int64_t head = 0; head < c_.p.heads; ++head) {
      tasks += tasks_of(of_queries(head), ranges);
      if (sums_queries()) tasks += tasks_of(of_keys(head), ranges);
    }
    TaskRun run(c_.call.context, tasks);
    for (int64_t task = 0; task < shared_.components(); ++task)
      run_component(task, 0, [&](const SweepShape& shape, ChunkSums<E>& sums, const auto& visit) {
        sweep_together(
            c_, shape, layout_.sweep, sums, threads, run,
            [&](int worker) { return layout_.workers.nth(scratch_, worker); }, visit);
      });
  }

 private:
  bool sums_queries() const noexcept { return g_.wanted.key || g_.wanted.value; }
  SweepShape of_queries(int64_t head) const noexcept {
    const KeyReach reach = c_.call.reach(head);
    return {reach.keys, c_.p.q_len, reach.causal, false, true, c_.call.context.cancel};
  }
  SweepShape of_keys(int64_t head) const noexcept {
    const KeyReach reach = c_.call.reach(head);
    return {c_.p.q_len, reach.keys, reach.causal, true, true, c_.call.context.cancel};
  }

  template <class Sweep>
  void run_component(int64_t component, int nth_memory, const Sweep& sweep) const {
    std::byte* const memory = layout_.heads.nth(scratch_, nth_memory);
    for (int64_t nth = 0; nth < shared_.heads(); ++nth) {
      const SharedHead shared = shared_(component, nth);
      const int64_t head = shared.head;
      const HeadGradients<E> h{
          .shared = shared,
          .memory = memory,
          .query = c_.call.query(head),
          .key = c_.call.key(head),
          .value = c_.call.value(head),
          .output = matrix_of(g_.inputs.output, c_.p, head, c_.p.q_len, c_.p.value_dim),
          .d_output = matrix_of(g_.inputs.d_output, c_.p, head, c_.p.q_len, c_.p.value_dim),
          .inverse_sums = layout_.inverse_sums.in(memory),
          .d_sums = layout_.d_sums.in(memory),
          .query_powers = layout_.query_powers.in(memory)};
      sum_keys(h, sweep);
      if (sums_queries()) sum_queries(h, sweep);
    }
  }

  // The first sweep.
  template <class Sweep>
  void sum_keys(const HeadGradients<E>& h, const Sweep& sweep) const {
    const SweepShape shape = of_queries(h.shared.head);
    const SummedTokens<E> keys{
        .x = h.key, .y = h.value, .length = shape.summed, .factor = c_.key_factor};
    ChunkSums<E> sums(c_, layout_.sweep.sums, keys, h.memory);
    sums.begin(true);
    sweep(shape, sums,
          [&](LaneTile<E>& lanes, const OwnChunk& own, const LinearState<E>& state, int64_t first,
              int64_t count) noexcept { visit_queries(h, sums, lanes, own, state, first, count); });
  }

  void visit_queries(const HeadGradients<E>& h, const ChunkSums<E>& sums, LaneTile<E>& lanes,
                     const OwnChunk& own, const LinearState<E>& state, int64_t first,
                     int64_t count) const noexcept {
    lanes.maker.make({h.query, first, count}, c_.query_factor, lanes.features, c_.tile,
                     lanes.powers);
    lanes.meet(sums, own, state.power);
    const uint64_t attended = lanes.attended(own, state.power);
    find_d_sums(h, sums, lanes, own, state, first, count, attended);
    if (!g_.wanted.query) return;
    lanes.find_d_features(sums, own, state);
    lanes.maker.backward(lanes.features, lanes.d_features, lanes.output_t);
    store(h.shared.query, layout_.d_query, g_.targets.query, h, c_.p.q_len, c_.p.head_dim,
          c_.query_factor, attended, {first, count}, lanes);
  }

  // inverse_sums, d_sums and query_powers of the lanes; d_y_t = n, d_units = e.
  void find_d_sums(const HeadGradients<E>& h, const ChunkSums<E>& sums, LaneTile<E>& lanes,
                   const OwnChunk& own, const LinearState<E>& state, int64_t first, int64_t count,
                   uint64_t attended) const noexcept {
    const int64_t dims = c_.p.value_dim;
    c_.route_of_rows(h.d_output.dtype)
        .pack_queries(rows_at(h.d_output, first), h.d_output.strides[0], h.d_output.strides[1],
                      count, dims, E(1), c_.tile, lanes.d_y_t);
    std::fill_n(lanes.d_units, c_.tile, E(0));
    if (c_.model.normalized) {
      lanes.weigh(sums, own);
      lanes.sum_weights(sums, own, state);
      c_.route_of_rows(h.output.dtype)
          .pack_queries(rows_at(h.output, first), h.output.strides[0], h.output.strides[1], count,
                        dims, E(1), c_.tile, lanes.output_t);
      c_.table.gradients.add_dots(lanes.d_y_t, lanes.output_t, dims, c_.tile, lanes.d_units);
      const Operand& d_statistic = g_.inputs.d_statistic;
      const TensorView d_lse =
          d_statistic.data ? vector_of(d_statistic, c_.p, h.shared.head, c_.p.q_len) : TensorView();
      for (int64_t x = 0; x < c_.tile; ++x) {
        const bool any = x < count && (attended >> x & 1) != 0;
        const E inverse = any ? 1 / lanes.weight_sums[x] : E(0);
        const E d_log = any && d_lse.defined()
                            ? static_cast<const E*>(d_lse.data)[(first + x) * d_lse.strides[0]]
                            : E(0);
        lanes.spare[x] = inverse;
        lanes.d_units[x] = any ? (d_log - lanes.d_units[x]) * inverse : E(0);
      }
      c_.kernels.scale_columns(lanes.d_y_t, lanes.spare, nullptr, dims, c_.tile, lanes.d_y_t);
      std::copy_n(lanes.spare, count, h.inverse_sums + first);
    }
    std::copy_n(lanes.d_units, count, h.d_sums + first);
    for (int64_t x = 0; x < count; ++x)
      h.query_powers[first + x] = (attended >> x & 1) != 0 ? -lanes.row_powers[x] : kNoPower<E>;
  }

  // The second sweep.
  template <class Sweep>
  void sum_queries(const HeadGradients<E>& h, const Sweep& sweep) const {
    const SweepShape shape = of_keys(h.shared.head);
    const SummedTokens<E> queries{.x = h.query,
                                  .y = h.d_output,
                                  .length = shape.summed,
                                  .factor = c_.query_factor,
                                  .y_factors = c_.model.normalized ? h.inverse_sums : nullptr,
                                  .units = h.d_sums,
                                  .powers = c_.powers() ? h.query_powers : nullptr};
    ChunkSums<E> sums(c_, layout_.sweep.sums, queries, h.memory);
    sums.begin(true);
    sweep(shape, sums,
          [&](LaneTile<E>& lanes, const OwnChunk& own, const LinearState<E>& state, int64_t first,
              int64_t count) noexcept { visit_keys(h, sums, lanes, own, state, first, count); });
    clear_behind(h, shape.lanes);
  }

  void visit_keys(const HeadGradients<E>& h, const ChunkSums<E>& sums, LaneTile<E>& lanes,
                  const OwnChunk& own, const LinearState<E>& state, int64_t first,
                  int64_t count) const noexcept {
    lanes.maker.make({h.key, first, count}, c_.key_factor, lanes.features, c_.tile, lanes.powers);
    lanes.meet(sums, own, state.power);
    const uint64_t attended = lanes.attended(own, state.power);
    if (c_.powers()) {  // of the pair, which are at most 0
      for (int64_t x = 0; x < c_.tile; ++x) lanes.row_powers[x] = -lanes.powers[x];
      lanes.use_row_powers(state.power);
    }
    if (g_.wanted.value) {
      lanes.weigh(sums, own);
      lanes.sum_rows(sums, own, state);
      store(h.shared.value, layout_.d_value, g_.targets.value, h, c_.p.k_len, c_.p.value_dim, E(1),
            attended, {first, count}, lanes);
    }
    if (!g_.wanted.key) return;
    c_.route.pack_queries(rows_at(h.value, first), h.value.strides[0], h.value.strides[1], count,
                          c_.p.value_dim, E(1), c_.tile, lanes.d_y_t);
    std::fill_n(lanes.d_units, c_.tile, E(1));
    lanes.find_d_features(sums, own, state);
    lanes.maker.backward(lanes.features, lanes.d_features, lanes.output_t);
    store(h.shared.key, layout_.d_key, g_.targets.key, h, c_.p.k_len, c_.p.head_dim, c_.key_factor,
          attended, {first, count}, lanes);
  }

  struct Rows {
    int64_t first, count;
  };

  // Stores output_t times a factor as rows of a gradient, or adds it to the sum over heads.
  void store(const SharedHead::Sum& sum, const ComponentPlace<E>& place, const Operand& target,
             const HeadGradients<E>& h, int64_t length, int64_t dims, E factor, uint64_t present,
             const Rows& rows, LaneTile<E>& lanes) const noexcept {
    if (!target.data) return;
    std::fill_n(lanes.spare, c_.tile, factor);
    const TensorView out = matrix_of(target, c_.p, h.shared.head, length, dims);
    if (sum.first && sum.last) {
      c_.table.store_rows[static_cast<int>(out.dtype)](
          lanes.output_t, dims, c_.tile, lanes.spare, present, rows.count, rows_at(out, rows.first),
          out.strides[0], out.strides[1]);
      return;
    }
    E* const one = layout_.rows.in(lanes.scratch);
    E* const all = place.in(h.memory, sum.slot * length + rows.first);
    c_.table.store_rows[static_cast<int>(dtype_of<E>())](lanes.output_t, dims, c_.tile, lanes.spare,
                                                         present, rows.count, one, dims, 1);
    c_.kernels.scale_and_add(one, E(1), sum.first ? nullptr : all, rows.count * dims, all);
    if (sum.last)
      c_.table.gradients.store_key_rows[static_cast<int>(out.dtype)](
          all, dims, rows.count, dims, E(1), rows_at(out, rows.first), out.strides[0],
          out.strides[1]);
  }

  // Keys that no query of the head attends to have no gradient from it.
  void clear_behind(const HeadGradients<E>& h, int64_t keys) const noexcept {
    const auto clear = [&](const SharedHead::Sum& sum, const ComponentPlace<E>& place,
                           const Operand& target, int64_t dims) {
      if (!target.data || keys >= c_.p.k_len) return;
      const int64_t rows = c_.p.k_len - keys;
      const TensorView out = matrix_of(target, c_.p, h.shared.head, c_.p.k_len, dims);
      if (sum.first && sum.last) {
        const E zero = 0;  // one row for all
        for (int64_t j = 0; j < rows; ++j)
          for (int64_t d = 0; d < dims; ++d)
            c_.table.gradients.store_key_rows[static_cast<int>(out.dtype)](
                &zero, 1, 1, 1, E(1),
                rows_at(out, keys + j) + d * out.strides[1] * size_of(out.dtype), 1, 1);
        return;
      }
      E* const all = place.in(h.memory, sum.slot * c_.p.k_len + keys);
      if (sum.first) std::fill_n(all, rows * dims, E(0));
      if (sum.last)
        c_.table.gradients.store_key_rows[static_cast<int>(out.dtype)](
            all, dims, rows, dims, E(1), rows_at(out, keys), out.strides[0], out.strides[1]);
    };
    clear(h.shared.key, layout_.d_key, g_.targets.key, c_.p.head_dim);
    clear(h.shared.value, layout_.d_value, g_.targets.value, c_.p.value_dim);
  }

  const LinearCall<E>& c_;
  const LinearLayout<E>& layout_;
  const MethodGradients& g_;
  std::byte* scratch_;
  const SharedHeads shared_;
};

}  // namespace

MethodPlan plan_linear_backward(const MethodCall& call, const LinearModel& model,
                                const WantedGradients& wanted) {
  return with_element_of_sums(call, [&]<class E>(E) {
    const LinearCall<E> c(call, model);
    const LinearLayout<E> layout = LinearLayout<E>::backward(c, wanted);
    return MethodPlan{.kernel = "linear: chunks of 64 tokens",
                      .workspace_bytes = layout.bytes,
                      .threads = layout.threads.workers,
                      .pairs = c.pairs()};
  });
}

void run_linear_backward(const MethodCall& call, const LinearModel& model,
                         const MethodGradients& gradients, std::byte* scratch) {
  with_element_of_sums(call, [&]<class E>(E) {
    LinearCall<E> c(call, model);
    const LinearLayout<E> layout = LinearLayout<E>::backward(c, gradients.wanted);
    prepare_projection(layout, scratch, c);
    LinearBackward<E>(c, layout, gradients, scratch).run();
  });
}

}  // namespace rapt
