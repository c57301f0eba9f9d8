#include "rapt/nn/gru.h"

#include <algorithm>

#include "nn/recurrence/gru_call.h"

namespace rapt::nn {
namespace {

// A direction of a layer, with its part of each tensor.
struct GruForward {
  const GruSizes& sizes;
  const Gru::Direction& weights;
  bool reverse;
  TensorView x;      // [batch, length, in]
  TensorView gates;  // [batch, length, 5 hidden]
  TensorView y;      // [batch, length, hidden], part of rows of `width`
  TensorView h0;     // [batch, hidden], or absent
  TensorView h_n;    // [batch, hidden], or absent
};

void project_input(const GruForward& f, const Run& run) {
  const int64_t rows = 3 * f.sizes.hidden;
  if (run.counts()) {
    run.scratch.need(product_workspace_bytes(f.sizes.steps(), f.x.shape[2], rows, f.sizes.computed,
                                             run.context));
    return;
  }
  ProductOptions options;
  if (f.weights.bias_ih.defined()) options.bias = f.weights.bias_ih.value.view();
  multiply(as_matrix(f.x), f.weights.weight_ih.value.view(), columns_of(f.gates, 0, rows), options,
           run.context, run.scratch.rest());
}

// All steps of the sequences [begin, end). `h` and `recurrent` have a row for each.
template <class E>
void run_steps(const GruForward& f, const PackedWeight& weight, int64_t begin, int64_t end,
               const TensorView& h, const TensorView& recurrent, std::span<std::byte> workspace,
               const CancelToken* cancel) {
  const int64_t hidden = f.sizes.hidden, rows = end - begin;
  const auto type = static_cast<int>(f.sizes.dtype);
  const KernelTable<E>& table = kernels<E>();
  auto* const h_rows = static_cast<E*>(h.data);
  if (f.h0.defined())
    table.fma[type]->pack_rows(part_of(f.h0, begin).data, hidden, 1, rows, hidden, h_rows);
  else
    std::fill_n(h_rows, rows * hidden, E(0));
  const TensorView left = h.slice(0, 0, rows), out = recurrent.slice(0, 0, rows);
  ProductOptions options;
  if (f.weights.bias_hh.defined()) options.bias = f.weights.bias_hh.value.view();
  GruStep<E> step{.rows = rows,
                  .hidden = hidden,
                  .gates = nullptr,
                  .gates_stride = f.gates.strides[0],
                  .recurrent = static_cast<const E*>(recurrent.data),
                  .h = h_rows,
                  .y = nullptr,
                  .y_stride = f.y.strides[0]};
  const Context alone = gru_step_context();
  for (int64_t i = 0; i < f.sizes.length; ++i) {
    if (cancel && cancel->cancelled()) return;
    const int64_t t = f.reverse ? f.sizes.length - 1 - i : i;
    multiply(left, weight, out, options, alone, workspace);
    step.gates = reinterpret_cast<E*>(gru_row(f.gates, begin, t));
    step.y = gru_row(f.y, begin, t);
    layer_kernels<E>().sequences.gru_step[type](step);
  }
  if (f.h_n.defined())
    table.matrices.store[type](h_rows, hidden, rows, hidden,
                               {.out = part_of(f.h_n, begin).data, .row_stride = hidden});
}

template <class E>
void run_direction(const GruForward& f, const Run& run) {
  const Arena::Frame frame(run.scratch);
  const GruTasks tasks = gru_tasks(f.sizes, run.context);
  project_input(f, run);
  const GruScratch scratch = take_gru_scratch(f.sizes, tasks, PackedFor::multiply, run.scratch);
  if (run.counts() || f.sizes.batch == 0 || f.sizes.hidden == 0) return;
  const PackedWeight weight =
      pack_weight(f.weights.weight_hh.value.view(), PackedFor::multiply, bytes_in(scratch.packed));
  TaskRun(run.context, tasks.tasks)
      .run(tasks.tasks, tasks.workers, tasks.to_executor, [&](int64_t task, int) {
        run_steps<E>(f, weight, tasks.begin(f.sizes, task), tasks.begin(f.sizes, task + 1),
                     part_of(scratch.h, task), part_of(scratch.recurrent, task),
                     bytes_in(part_of(scratch.workspace, task)), run.context.cancel);
      });
}

}  // namespace

Gru make_gru(int64_t in_features, int64_t hidden, const GruOptions& options, DType dtype) {
  if (options.layers < 1)
    throw Error(ErrorCode::argument,
                "a Gru of " + std::to_string(options.layers) + " layers; expected at least 1");
  Gru layer;
  layer.bidirectional = options.bidirectional;
  const int64_t per_layer = layer.directions_per_layer();
  const Init init = Init::fan_in_uniform(hidden);
  for (int64_t i = 0; i < options.layers * per_layer; ++i) {
    const int64_t in = i < per_layer ? in_features : per_layer * hidden;
    Gru::Direction& d = layer.directions.emplace_back();
    d.weight_ih = make_parameter(dtype, {3 * hidden, in}, init);
    d.weight_hh = make_parameter(dtype, {3 * hidden, hidden}, init);
    if (!options.bias) continue;
    d.bias_ih = make_parameter(dtype, {3 * hidden}, init);
    d.bias_hh = make_parameter(dtype, {3 * hidden}, init);
  }
  return layer;
}

Gru::State make_state(const Gru& layer, int64_t batch, int64_t length, Arena& arena) {
  const DType dtype = layer.directions.at(0).weight_hh.value.dtype();
  const int64_t directions = layer.layers() * layer.directions_per_layer();
  return {.gates = arena.take(dtype == DType::f64 ? dtype : DType::f32,
                              {directions, batch, length, 5 * layer.hidden()}),
          .between = arena.take(dtype, {layer.layers() - 1, batch, length, layer.width()})};
}

void forward(const Gru& layer, const TensorView& x, const TensorView& y, const Gru::State& state,
             const Run& run, const GruHidden& hidden) {
  const GruSizes sizes = gru_sizes(layer, x);
  if (!run.counts()) {
    check_gru_call(sizes, layer, x, state);
    const int64_t y_shape[] = {sizes.batch, sizes.length, sizes.width()};
    check_output("y", y, y_shape, sizes.dtype);
    check_gru_hidden(sizes, "h0", hidden.h0, false);
    check_gru_hidden(sizes, "h_n", hidden.h_n, true);
    check_apart("y", y, "x", x);
    check_apart("y", y, "h0", hidden.h0);
    check_apart("h_n", hidden.h_n, "x", x);
    check_apart("h_n", hidden.h_n, "h0", hidden.h0);
    check_apart("h_n", hidden.h_n, "y", y);
  }
  TensorView in = x;
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const TensorView out = i + 1 < sizes.layers ? part_of(state.between, i) : y;
    for (int64_t d = 0; d < sizes.per_layer; ++d) {
      const int64_t at = i * sizes.per_layer + d;
      const GruForward f{.sizes = sizes,
                         .weights = layer.directions[static_cast<size_t>(at)],
                         .reverse = d == 1,
                         .x = in,
                         .gates = part_of(state.gates, at),
                         .y = out.slice(2, d * sizes.hidden, (d + 1) * sizes.hidden),
                         .h0 = part_of(hidden.h0, at),
                         .h_n = part_of(hidden.h_n, at)};
      in_computed_type("x", sizes.dtype, [&]<class E>() { run_direction<E>(f, run); });
    }
    in = out;
  }
}

}  // namespace rapt::nn
