#include <algorithm>

#include "nn/recurrence/gru_call.h"

namespace rapt::nn {
namespace {

// A direction of a layer, with its part of each tensor.
struct GruBackward {
  const GruSizes& sizes;
  Gru::Direction& weights;
  bool reverse;
  TensorView x;      // [batch, length, in]
  TensorView gates;  // [batch, length, 5 hidden]
  TensorView d_y;    // [batch, length, hidden], part of rows of `width`
  TensorView d_x;    // [batch, length, in], or absent
  bool add;          // to d_x?
  TensorView d_h_n;  // [batch, hidden], or absent
  TensorView d_h0;   // [batch, hidden], or absent
};

// Runs all steps of the sequences [begin, end) in reverse; d_gates [batch, length, 4 hidden]
// becomes the gradients of the gates. `d_h` and `d_recurrent` have a row for each sequence.
template <class E>
void run_steps_back(const GruBackward& b, const PackedWeight& weight, int64_t begin, int64_t end,
                    const TensorView& d_gates, const TensorView& d_h, const TensorView& d_recurrent,
                    std::span<std::byte> workspace, const CancelToken* cancel) {
  const int64_t hidden = b.sizes.hidden, rows = end - begin;
  const auto type = static_cast<int>(b.sizes.dtype);
  const KernelTable<E>& table = kernels<E>();
  auto* const d_h_rows = static_cast<E*>(d_h.data);
  if (b.d_h_n.defined())
    table.fma[type]->pack_rows(part_of(b.d_h_n, begin).data, hidden, 1, rows, hidden, d_h_rows);
  else
    std::fill_n(d_h_rows, rows * hidden, E(0));
  const TensorView left = d_recurrent.slice(0, 0, rows), out = d_h.slice(0, 0, rows);
  GruStepGradient<E> step{.rows = rows,
                          .hidden = hidden,
                          .gates = nullptr,
                          .gates_stride = b.gates.strides[0],
                          .d_y = nullptr,
                          .d_y_stride = b.d_y.strides[0],
                          .d_h = d_h_rows,
                          .d_gates = nullptr,
                          .d_gates_stride = d_gates.strides[0],
                          .d_recurrent = static_cast<E*>(d_recurrent.data)};
  const Context alone = gru_step_context();
  for (int64_t i = b.sizes.length; i-- > 0;) {
    if (cancel && cancel->cancelled()) return;
    const int64_t t = b.reverse ? b.sizes.length - 1 - i : i;
    step.gates = reinterpret_cast<const E*>(gru_row(b.gates, begin, t));
    step.d_y = gru_row(b.d_y, begin, t);
    step.d_gates = reinterpret_cast<E*>(gru_row(d_gates, begin, t));
    layer_kernels<E>().sequences.gru_step_gradient[type](step);
    if (i > 0 || b.d_h0.defined()) multiply_gradient(left, weight, out, true, alone, workspace);
  }
  if (b.d_h0.defined())
    table.matrices.store[type](d_h_rows, hidden, rows, hidden,
                               {.out = part_of(b.d_h0, begin).data, .row_stride = hidden});
}

template <class E>
void gradients_of_gates(const GruBackward& b, const TensorView& d_gates, const Run& run) {
  const Arena::Frame frame(run.scratch);
  const GruTasks tasks = gru_tasks(b.sizes, run.context);
  const GruScratch scratch =
      take_gru_scratch(b.sizes, tasks, PackedFor::multiply_gradient, run.scratch);
  if (run.counts() || b.sizes.batch == 0 || b.sizes.hidden == 0) return;
  const PackedWeight weight = pack_weight(b.weights.weight_hh.value.view(),
                                          PackedFor::multiply_gradient, bytes_in(scratch.packed));
  TaskRun(run.context, tasks.tasks)
      .run(tasks.tasks, tasks.workers, tasks.to_executor, [&](int64_t task, int) {
        run_steps_back<E>(b, weight, tasks.begin(b.sizes, task), tasks.begin(b.sizes, task + 1),
                          d_gates, part_of(scratch.h, task), part_of(scratch.recurrent, task),
                          bytes_in(part_of(scratch.workspace, task)), run.context.cancel);
      });
}

// Adds to the gradients of rows [begin, end) of a weight and a bias, where they learn.
void add_to_rows(const TensorView& d_rows, const TensorView& x, Parameter& weight, Parameter& bias,
                 int64_t begin, int64_t end, const Run& run) {
  const auto rows_of = [&](Parameter& p) {
    return p.learns() ? p.gradient.view().slice(0, begin, end) : TensorView();
  };
  const TensorView d_weight = rows_of(weight), d_bias = rows_of(bias);
  if (d_weight.defined() || d_bias.defined())
    add_weight_gradient(d_rows, x, d_weight, d_bias, run.context, run.scratch.rest());
}

// The gradients of the parameters and of x: products over all steps.
void gradients_of_products(const GruBackward& b, const TensorView& d_gates, const Run& run) {
  const int64_t hidden = b.sizes.hidden, in = b.x.shape[2];
  if (run.counts()) {
    for (const int64_t columns : {hidden, in})
      for (const int64_t rows : {hidden, 2 * hidden, 3 * hidden})
        run.scratch.need(
            product_workspace_bytes(b.sizes.steps(), columns, rows, b.sizes.computed, run.context));
    return;
  }
  const TensorView of_input = columns_of(d_gates, 0, 3 * hidden);
  const TensorView before = columns_of(b.gates, 4 * hidden, 5 * hidden);
  Gru::Direction& w = b.weights;
  add_to_rows(of_input, as_matrix(b.x), w.weight_ih, w.bias_ih, 0, 3 * hidden, run);
  add_to_rows(columns_of(d_gates, 0, 2 * hidden), before, w.weight_hh, w.bias_hh, 0, 2 * hidden,
              run);
  add_to_rows(columns_of(d_gates, 3 * hidden, 4 * hidden), before, w.weight_hh, w.bias_hh,
              2 * hidden, 3 * hidden, run);
  if (b.d_x.defined())
    multiply_gradient(of_input, w.weight_ih.value.view(), as_matrix(b.d_x), b.add, run.context,
                      run.scratch.rest());
}

void run_direction_back(const GruBackward& b, const Run& run) {
  const Arena::Frame frame(run.scratch);
  const TensorView d_gates =
      run.scratch.take(b.sizes.computed, {b.sizes.batch, b.sizes.length, 4 * b.sizes.hidden});
  in_computed_type("x", b.sizes.dtype, [&]<class E>() { gradients_of_gates<E>(b, d_gates, run); });
  gradients_of_products(b, d_gates, run);
}

void check_gru_backward(const GruSizes& sizes, const Gru& layer, const TensorView& x,
                        const TensorView& d_y, const Gru::State& state, const TensorView& d_x,
                        const GruHiddenGradients& hidden) {
  check_gru_call(sizes, layer, x, state);
  const int64_t y_shape[] = {sizes.batch, sizes.length, sizes.width()};
  check_input("d_y", d_y, y_shape, sizes.dtype);
  check_gru_hidden(sizes, "d_h_n", hidden.d_h_n, false);
  check_gru_hidden(sizes, "d_h0", hidden.d_h0, true);
  if (d_x.defined()) check_output("d_x", d_x, x.dims(), sizes.dtype);
  check_apart("d_x", d_x, "x", x);
  check_apart("d_x", d_x, "d_y", d_y);
  check_apart("d_x", d_x, "d_h_n", hidden.d_h_n);
  check_apart("d_h0", hidden.d_h0, "x", x);
  check_apart("d_h0", hidden.d_h0, "d_y", d_y);
  check_apart("d_h0", hidden.d_h0, "d_h_n", hidden.d_h_n);
  check_apart("d_h0", hidden.d_h0, "d_x", d_x);
}

}  // namespace

void backward(Gru& layer, const TensorView& x, const TensorView& d_y, const Gru::State& state,
              const TensorView& d_x, const Run& run, bool add, const GruHiddenGradients& hidden) {
  const GruSizes sizes = gru_sizes(layer, x);
  if (!run.counts()) check_gru_backward(sizes, layer, x, d_y, state, d_x, hidden);
  const Arena::Frame frame(run.scratch);
  // Gradients of the y of two layers: the one that is read, and the one that is made of it.
  TensorView d_between[2];
  for (int64_t i = 0; i < std::min<int64_t>(2, sizes.layers - 1); ++i)
    d_between[i] = run.scratch.take(sizes.dtype, {sizes.batch, sizes.length, sizes.width()});
  for (int64_t i = sizes.layers; i-- > 0;) {
    const TensorView d_out = i + 1 < sizes.layers ? d_between[i % 2] : d_y;
    for (int64_t d = 0; d < sizes.per_layer; ++d) {
      const int64_t at = i * sizes.per_layer + d;
      const GruBackward b{.sizes = sizes,
                          .weights = layer.directions[static_cast<size_t>(at)],
                          .reverse = d == 1,
                          .x = i > 0 ? part_of(state.between, i - 1) : x,
                          .gates = part_of(state.gates, at),
                          .d_y = d_out.slice(2, d * sizes.hidden, (d + 1) * sizes.hidden),
                          .d_x = i > 0 ? d_between[(i - 1) % 2] : d_x,
                          .add = d > 0 || (i == 0 && add),
                          .d_h_n = part_of(hidden.d_h_n, at),
                          .d_h0 = part_of(hidden.d_h0, at)};
      run_direction_back(b, run);
    }
  }
}

}  // namespace rapt::nn
