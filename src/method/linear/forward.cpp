// The forward pass: keys are summed, queries are in lanes.
#include "method/linear/linear_layout.h"
#include "method/linear/linear_passes.h"

namespace rapt {
namespace {

template <class E>
class LinearForward {
 public:
  LinearForward(const LinearCall<E>& c, const LinearLayout<E>& layout, const MethodResults& results,
                std::byte* scratch)
      : c_(c), layout_(layout), results_(results), scratch_(scratch) {}

  void run() {
    const LinearThreads& threads = layout_.threads;
    if (!threads.share_heads) {
      TaskRun run(c_.call.context, c_.p.heads);
      run.run(c_.p.heads, threads.workers, threads.to_executor,
              [&](int64_t head, int worker) noexcept {
                with_sums(head, layout_.heads.nth(scratch_, worker),
                          [&](auto& sums, const auto& shape) {
                            sweep_alone(c_, shape, layout_.sweep, sums, scratch_of(worker),
                                        visit(head, sums));
                          });
              });
      return;
    }
    const FeatureRanges ranges(c_.model.features, threads.workers);
    int64_t tasks = 0;
    for (int64_t head = 0; head < c_.p.heads; ++head) tasks += tasks_of(shape_of(head), ranges);
    TaskRun run(c_.call.context, tasks);
    for (int64_t head = 0; head < c_.p.heads; ++head)
      with_sums(head, layout_.heads.nth(scratch_, 0), [&](auto& sums, const auto& shape) {
        sweep_together(
            c_, shape, layout_.sweep, sums, threads, run,
            [&](int worker) { return scratch_of(worker); }, visit(head, sums));
      });
  }

 private:
  std::byte* scratch_of(int worker) const noexcept { return layout_.workers.nth(scratch_, worker); }

  SweepShape shape_of(int64_t head) const noexcept {
    const KeyReach reach = c_.call.reach(head);
    return {reach.keys, c_.p.q_len, reach.causal, false, false, c_.call.context.cancel};
  }

  // Calls work(sums, shape) with the sums of a head, whose state is loaded before and stored
  // behind.
  template <class Work>
  void with_sums(int64_t head, std::byte* memory, const Work& work) const {
    const SweepShape shape = shape_of(head);
    const SummedTokens<E> keys{.x = c_.call.key(head),
                               .y = c_.call.value(head),
                               .length = shape.summed,
                               .factor = c_.key_factor};
    ChunkSums<E> sums(c_, layout_.sweep.sums, keys, memory);
    const LinearModel& m = c_.model;
    sums.begin(!m.initial_state.defined());
    if (m.initial_state.defined()) load_state(m.initial_state, c_, head, sums);
    work(sums, shape);
    if (m.final_state.defined()) store_state(sums, c_, head, m.final_state);
  }

  auto visit(int64_t head, const ChunkSums<E>& sums) const noexcept {
    return [this, &sums, head, query = c_.call.query(head)](LaneTile<E>& lanes, const OwnChunk& own,
                                                            const LinearState<E>& state,
                                                            int64_t first, int64_t count) noexcept {
      lanes.maker.make({query, first, count}, c_.query_factor, lanes.features, c_.tile,
                       lanes.powers);
      lanes.meet(sums, own, state.power);
      lanes.weigh(sums, own);
      if (c_.model.normalized) lanes.sum_weights(sums, own, state);
      lanes.sum_rows(sums, own, state);
      finish(lanes, head, first, count, lanes.attended(own, state.power));
    };
  }

  // Divides and stores. `attended`: lanes that have a key.
  void finish(LaneTile<E>& lanes, int64_t head, int64_t first, int64_t count,
              uint64_t attended) const noexcept {
    const Outputs& o = results_.outputs;
    const E* inverse = nullptr;
    if (c_.model.normalized) {
      for (int64_t x = 0; x < c_.tile; ++x) lanes.spare[x] = 1 / lanes.weight_sums[x];
      inverse = lanes.spare;
    }
    if (o.output.data) {
      const TensorView out = matrix_of(o.output, c_.p, head, c_.p.q_len, c_.p.value_dim);
      c_.table.store_rows[static_cast<int>(out.dtype)](
          lanes.output_t, c_.p.value_dim, c_.tile, inverse, attended, count,
          static_cast<std::byte*>(out.data) + first * out.strides[0] * size_of(out.dtype),
          out.strides[0], out.strides[1]);
    }
    if (o.statistic.data) store_statistic(lanes, head, first, count, attended);
  }

  void store_statistic(LaneTile<E>& lanes, int64_t head, int64_t first, int64_t count,
                       uint64_t attended) const noexcept {
    const TensorView out = vector_of(results_.outputs.statistic, c_.p, head, c_.p.q_len);
    if (c_.model.normalized) {
      for (int64_t x = 0; x < c_.tile; ++x)
        lanes.row_powers[x] += c_.powers() ? lanes.powers[x] : E(0);
      c_.kernels.log_of_sums(lanes.weight_sums, lanes.row_powers,
                             static_cast<E>(c_.model.log_factor), c_.tile, lanes.spare);
    }
    E* const to = static_cast<E*>(out.data) + first * out.strides[0];
    for (int64_t x = 0; x < count; ++x)
      to[x * out.strides[0]] = !c_.model.normalized       ? E(0)
                               : (attended >> x & 1) != 0 ? lanes.spare[x]
                                                          : -std::numeric_limits<E>::infinity();
  }

  const LinearCall<E>& c_;
  const LinearLayout<E>& layout_;
  const MethodResults& results_;
  std::byte* scratch_;
};

}  // namespace

MethodPlan plan_linear(const MethodCall& call, const LinearModel& model) {
  return with_element_of_sums(call, [&]<class E>(E) {
    const LinearCall<E> c(call, model);
    const LinearLayout<E> layout = LinearLayout<E>::forward(c);
    return MethodPlan{.kernel = "linear: chunks of 64 tokens",
                      .workspace_bytes = layout.bytes,
                      .threads = layout.threads.workers,
                      .pairs = c.pairs()};
  });
}

void run_linear(const MethodCall& call, const LinearModel& model, const MethodResults& results,
                std::byte* scratch) {
  with_element_of_sums(call, [&]<class E>(E) {
    LinearCall<E> c(call, model);
    const LinearLayout<E> layout = LinearLayout<E>::forward(c);
    prepare_projection(layout, scratch, c);
    LinearForward<E>(c, layout, results, scratch).run();
  });
}

}  // namespace rapt
