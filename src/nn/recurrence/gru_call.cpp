#include "nn/recurrence/gru_call.h"

#include <algorithm>

namespace rapt::nn {
namespace {

// The fewest sequences of a task: with fewer, a step takes as long as reading the weight does.
constexpr int64_t kLeastSequences = 4;

void check_gru_parameter(const char* name, const Parameter& p, std::initializer_list<int64_t> dims,
                         DType dtype) {
  const Shape shape(dims.begin(), dims.size());
  check_input(name, p.value.view(), shape, dtype);
  if (p.learns())
    check_input("a gradient", p.gradient.view(), shape, dtype == DType::f64 ? dtype : DType::f32);
}

}  // namespace

GruSizes gru_sizes(const Gru& layer, const TensorView& x) {
  if (layer.directions.empty() ||
      layer.directions.size() % static_cast<size_t>(layer.directions_per_layer()) != 0)
    throw Error(ErrorCode::argument,
                "a Gru of " + std::to_string(layer.directions.size()) +
                    " directions; make_gru() makes one per layer, or two if it is bidirectional");
  for (const Gru::Direction& d : layer.directions)
    if (d.weight_ih.value.rank() != 2 || d.weight_hh.value.rank() != 2)
      throw Error(ErrorCode::argument, "a weight of a Gru is missing; make_gru() makes all");
  if (!x.defined()) throw Error(ErrorCode::argument, "x is missing");
  if (x.rank != 3)
    throw Error(ErrorCode::shape, "x " + to_string(x.dims()) + "; expected [batch, length, in]");
  GruSizes sizes;
  sizes.batch = x.shape[0], sizes.length = x.shape[1];
  sizes.in = layer.in_features(), sizes.hidden = layer.hidden();
  sizes.layers = layer.layers(), sizes.per_layer = layer.directions_per_layer();
  sizes.dtype = layer.directions[0].weight_hh.value.dtype();
  sizes.computed = sizes.dtype == DType::f64 ? DType::f64 : DType::f32;
  return sizes;
}

void check_gru_call(const GruSizes& sizes, const Gru& layer, const TensorView& x,
                    const Gru::State& state) {
  const int64_t rows = 3 * sizes.hidden;
  int64_t in = sizes.in;
  for (const Gru::Direction& d : layer.directions) {
    if (&d - layer.directions.data() == sizes.per_layer) in = sizes.width();
    check_gru_parameter("weight_ih", d.weight_ih, {rows, in}, sizes.dtype);
    check_gru_parameter("weight_hh", d.weight_hh, {rows, sizes.hidden}, sizes.dtype);
    if (d.bias_ih.defined()) check_gru_parameter("bias_ih", d.bias_ih, {rows}, sizes.dtype);
    if (d.bias_hh.defined()) check_gru_parameter("bias_hh", d.bias_hh, {rows}, sizes.dtype);
  }
  const int64_t x_shape[] = {sizes.batch, sizes.length, sizes.in};
  check_input("x", x, x_shape, sizes.dtype);
  const int64_t gates[] = {sizes.layers * sizes.per_layer, sizes.batch, sizes.length,
                           5 * sizes.hidden};
  check_output("state.gates", state.gates, gates, sizes.computed);
  const int64_t between[] = {sizes.layers - 1, sizes.batch, sizes.length, sizes.width()};
  check_output("state.between", state.between, between, sizes.dtype);
}

void check_gru_hidden(const GruSizes& sizes, const char* name, const TensorView& h, bool output) {
  if (!h.defined()) return;
  const int64_t shape[] = {sizes.layers * sizes.per_layer, sizes.batch, sizes.hidden};
  (output ? check_output : check_input)(name, h, Shape(shape), sizes.dtype);
}

GruTasks gru_tasks(const GruSizes& sizes, const Context& context) {
  const double work = 6.0 * static_cast<double>(sizes.steps()) * static_cast<double>(sizes.hidden) *
                      static_cast<double>(sizes.hidden);
  const Workers workers(work, context);
  GruTasks t;
  t.to_executor = workers.to_executor();
  const int64_t most = std::max<int64_t>(1, sizes.batch / kLeastSequences);
  t.tasks = std::min<int64_t>(workers.worthwhile(), most);
  t.workers = static_cast<int>(t.tasks);
  t.most_rows = (sizes.batch + t.tasks - 1) / t.tasks;
  return t;
}

GruScratch take_gru_scratch(const GruSizes& sizes, const GruTasks& tasks, PackedFor use,
                            Arena& arena) {
  const auto bytes = static_cast<int64_t>(product_workspace_bytes(
      tasks.most_rows, sizes.hidden, 3 * sizes.hidden, sizes.computed, gru_step_context()));
  const auto packed = static_cast<int64_t>(
      packed_weight_bytes(3 * sizes.hidden, sizes.hidden, sizes.computed, use));
  return {.h = arena.take(sizes.computed, {tasks.tasks, tasks.most_rows, sizes.hidden}),
          .recurrent = arena.take(sizes.computed, {tasks.tasks, tasks.most_rows, 3 * sizes.hidden}),
          .workspace = arena.take(DType::u8, {tasks.tasks, bytes}),
          .packed = arena.take(DType::u8, {packed})};
}

}  // namespace rapt::nn
