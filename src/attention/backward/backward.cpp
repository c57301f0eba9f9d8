// The backward pass over components, segments and chunks. Order of sums: backward_plan.h.
#include "attention/backward/backward.h"

#include <algorithm>

#include "attention/backward/backward_layout.h"
#include "attention/tiles/prepare_keys.h"
#include "threads/task_run.h"

namespace rapt {
namespace {

// A sequence of a component; in two passes, one of its segments or chunks.
struct Item {
  int64_t component, sequence, part;
};
// Calls visit(item) for an item of the plan: a sequence of a component or, with distance tables,
// all sequences of a component in order.
template <class E, class Visit>
void for_each_of_item(const BackwardCall<E>& call, int64_t item, const Visit& visit) {
  const int64_t sequences = call.problem().sequences;
  if (!call.wanted.tables()) return visit(Item{item / sequences, item % sequences, 0});
  for (int64_t s = 0; s < sequences; ++s) visit(Item{item, s, 0});
}
template <class E>
Item part_item_of(const BackwardCall<E>& call, int64_t item) {
  const int64_t per_head = call.plan.cells_per_head;
  const int64_t component = item / per_head, cell = item % per_head;
  if (!call.problem().query_starts) return {component, 0, cell};
  const int64_t* const starts = call.at(call.layout.cell_starts);
  const int64_t sequence =
      std::upper_bound(starts, starts + call.problem().sequences, cell) - starts - 1;
  return {component, sequence, cell - starts[sequence]};
}

// Runs all heads of a component on one worker.
template <class E>
void run_item(const BackwardCall<E>& call, BackwardWorker<E>& worker, const Item& item) {
  for (int64_t nth = 0; nth < call.plan.component_heads && !worker.stopped(); ++nth) {
    worker.begin_head(item.component, item.sequence, nth);
    const int64_t parts = worker.parts().count;
    for (int64_t part = 0; part < parts; ++part) worker.prepare(part);
    for (int64_t s = 0; s < parts; ++s) {
      for (int64_t chunk = 0; chunk < parts; ++chunk) worker.step(chunk, (chunk + s) % parts);
      for (int64_t slice = 0; call.wanted.tables() && slice < parts; ++slice)
        worker.add_windows(s, slice);
    }
    for (int64_t part = 0; part < parts; ++part) worker.finish(part);
  }
}

template <class E>
void run_one_pass(const BackwardCall<E>& call, const Context& context) {
  const BackwardPlan& plan = call.plan;
  const int64_t items = plan.items;
  const auto workers = plan.workers;
  const bool to_executor = plan.tiling.to_executor;
  if (!plan.workers_share_component) {
    const int64_t per_task = plan.items_per_task;
    TaskRun run(context, ceil_div(items, per_task));
    run.run(ceil_div(items, per_task), workers, to_executor, [&](int64_t task, int worker) {
      BackwardWorker<E> w(call, context.cancel, worker, worker);
      for (int64_t i = task * per_task; i < std::min((task + 1) * per_task, items); ++i)
        for_each_of_item(call, i, [&](const Item& item) { run_item(call, w, item); });
    });
    return;
  }
  // All workers share each head, one head after the other.
  const int64_t steps = plan.cells_per_head * (plan.most_parts * (1 + call.wanted.tables()) + 2);
  TaskRun run(context, plan.components * plan.component_heads * steps);
  const auto run_together = [&](const Item& item) {
    const Sequence sequence = call.problem().sequence(item.sequence);
    const int64_t parts = parts_of(plan.tiling, sequence.q_len, sequence.k_len).count;
    for (int64_t nth = 0; nth < plan.component_heads; ++nth)
      for (int64_t s = -1; s <= parts; ++s) {
        const auto run_all_parts = [&](const auto& work) {
          run.run(parts, workers, to_executor, [&](int64_t part, int worker) {
            BackwardWorker<E> w(call, context.cancel, worker, 0);
            w.begin_head(item.component, item.sequence, nth);
            work(w, part);
          });
        };
        run_all_parts([&](BackwardWorker<E>& w, int64_t part) {
          if (s < 0)
            w.prepare(part);
          else if (s < parts)
            w.step(part, (part + s) % parts);
          else
            w.finish(part);
        });
        if (call.wanted.tables() && s >= 0 && s < parts)
          run_all_parts([&](BackwardWorker<E>& w, int64_t part) { w.add_windows(s, part); });
      }
  };
  for (int64_t i = 0; i < items; ++i) for_each_of_item(call, i, run_together);
}

template <class E>
void run_two_passes(const BackwardCall<E>& call, const Context& context) {
  const BackwardPlan& plan = call.plan;
  const WantedGradients& wanted = call.wanted;
  const Operand& bias = call.targets.bias;
  const bool columns = bias.data && bias.dim_stride == 0 && bias.row_stride != 0;
  const bool chunks =
      wanted.key || wanted.value || wanted.score_parameters || (wanted.bias && !columns);
  const bool segments = wanted.query_sums() || columns;
  const int64_t items = plan.components * plan.cells_per_head;
  const int64_t per_task = plan.items_per_task;
  const int64_t tasks = ceil_div(items, per_task);
  TaskRun run(context, (1 + chunks + segments) * tasks);
  const auto pass = [&](const auto& work) {
    run.run(tasks, plan.workers, plan.tiling.to_executor, [&](int64_t task, int worker) {
      BackwardWorker<E> w(call, context.cancel, worker, 0);
      for (int64_t i = task * per_task; i < std::min((task + 1) * per_task, items); ++i)
        work(w, part_item_of(call, i));
    });
  };
  const auto visit_all_heads = [&](BackwardWorker<E>& w, const Item& item, const auto& visit) {
    for (int64_t nth = 0; nth < plan.component_heads && !w.stopped(); ++nth) {
      w.begin_head(item.component, item.sequence, nth);
      visit();
    }
  };
  pass([&](BackwardWorker<E>& w, const Item& item) {
    visit_all_heads(w, item, [&] { w.make_deltas(item.part); });
  });
  if (chunks)
    pass([&](BackwardWorker<E>& w, const Item& item) {
      visit_all_heads(w, item, [&] { w.run_chunk(item.part); });
    });
  if (segments)
    pass([&](BackwardWorker<E>& w, const Item& item) {
      visit_all_heads(w, item, [&] { w.clear_bias_rows(item.part); });
      w.begin_head(item.component, item.sequence, 0);
      w.for_each_unit(item.part, [&](Positions unit) {
        visit_all_heads(w, item, [&] { w.run_unit(item.part, unit); });
      });
    });
}

// Clears the gradients of options.relative, to which heads and parts add.
template <class E>
void clear_relative(const BackwardCall<E>& call) {
  const Problem& p = call.problem();
  const GradientTargets& t = call.targets;
  const auto clear = [&](const Operand& target, int64_t rows, int64_t dims) {
    int64_t index[kMaxRank];
    for (int64_t head = 0; target.data && head < p.heads; ++head) {
      p.index_of(head, index);
      const int64_t matrix = target.offset_of(index, p.leading_rank);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t d = 0; d < dims; ++d)
          *reinterpret_cast<E*>(
              target.at(matrix + row * target.row_stride + d * target.dim_stride)) = 0;
    }
  };
  clear(t.key_rows, p.relative.distances, p.head_dim);
  clear(t.query_rows, p.relative.distances, p.head_dim);
  clear(t.value_rows, p.relative.distances, p.value_dim);
  clear(t.content_bias, 1, p.head_dim);
  clear(t.position_bias, 1, p.head_dim);
}

// Adds a head's sums over its queries to the gradients of the query biases.
template <class E>
void add_query_bias_gradients(const BackwardCall<E>& call) {
  const Problem& p = call.problem();
  const int64_t cells = call.plan.cells_per_head;
  int64_t index[kMaxRank];
  for (int64_t head = 0; head < p.heads; ++head) {
    p.index_of(head, index);
    const double* const sums = call.at(call.layout.query_bias_sums, head * cells);
    const auto add = [&](int64_t which, const Operand& target) {
      for (int64_t d = 0; d < p.head_dim; ++d) {
        double sum = 0;
        for (int64_t c = 0; c < cells; ++c) sum += sums[(2 * c + which) * p.head_dim + d];
        if (target.data)
          *reinterpret_cast<E*>(target.at(target.offset_of(index, p.leading_rank) +
                                          d * target.dim_stride)) += static_cast<E>(p.scale * sum);
      }
    };
    add(0, call.targets.content_bias);
    add(1, call.targets.position_bias);
  }
}

// Adds up the double sums of all cells: of the scale, of learned parameters, of query biases, and
// of a bias with one number per head.
template <class E>
void add_cells(const BackwardCall<E>& call) {
  const Problem& p = call.problem();
  const BackwardPlan& plan = call.plan;
  const int64_t cells = p.heads * plan.cells_per_head;
  if (call.targets.scale) {
    const double* const sums = call.at(call.layout.scale_sums);
    *call.targets.scale = 0;
    for (int64_t c = 0; c < cells; ++c) *call.targets.scale += sums[c];
  }
  if (call.targets.score_parameters.data)
    add_parameter_gradients(p, call.forward.score_functions, plan.cells_per_head,
                            call.at(call.layout.score_sums), call.targets.score_parameters);
  if (call.targets.normalizer_parameters.data)
    add_parameter_gradients(p, std::span(&call.options.normalizer, 1), plan.cells_per_head,
                            call.at(call.layout.normalizer_sums),
                            call.targets.normalizer_parameters);
  if (call.wanted.query_biases()) add_query_bias_gradients(call);
  const Operand& bias = call.targets.bias;
  if (!call.layout.bias_sums.exists() || !bias.data) return;
  int64_t index[kMaxRank];
  for (int64_t component = 0; component < plan.components; ++component)
    for (int64_t nth = 0; nth < plan.component_heads; ++nth) {
      const ComponentHead& entry = *call.at(call.layout.heads, nth);
      const int64_t head = first_head(p, plan, component) + entry.head;
      p.index_of(head, index);
      E& number = *reinterpret_cast<E*>(bias.at(bias.offset_of(index, p.leading_rank)));
      if (entry.first[kOfBias]) number = 0;
      const double* const sums = call.at(call.layout.bias_sums, head * plan.cells_per_head);
      double sum = 0;
      for (int64_t c = 0; c < plan.cells_per_head; ++c) sum += sums[c];
      number += static_cast<E>(sum);
    }
}

}  // namespace

template <class E>
void run_backward(const BackwardCall<E>& call, const Context& context) {
  const Problem& p = call.problem();
  const BackwardPlan& plan = call.plan;
  const BackwardLayout<E>& layout = call.layout;
  order_heads(p, plan, call.at(layout.heads), call.at(layout.head_scratch));
  if (p.query_starts) {
    int64_t* const starts = call.at(layout.cell_starts);
    starts[0] = 0;
    for (int64_t s = 0; s < p.sequences; ++s) {
      const Sequence sequence = p.sequence(s);
      starts[s + 1] = starts[s] + parts_of(plan.tiling, sequence.q_len, sequence.k_len).count;
    }
  }
  for (const CallPlace<double>* const sums :
       {&layout.scale_sums, &layout.score_sums, &layout.normalizer_sums, &layout.bias_sums,
        &layout.query_bias_sums})
    if (sums->exists()) std::fill_n(call.at(*sums), sums->count(), 0.0);
  clear_relative(call);
  prepare_keys(call.forward, context);
  call.wanted.two_passes ? run_two_passes(call, context) : run_one_pass(call, context);
  add_cells(call);
}

template void run_backward(const BackwardCall<float>&, const Context&);
template void run_backward(const BackwardCall<double>&, const Context&);

}  // namespace rapt
