#include "nn/attention/multi_head_parts.h"

#include <algorithm>
#include <string>

#include "nn/attention/head_norms.h"
#include "nn/dense.h"

namespace rapt::nn {
namespace {

[[noreturn]] void fail_shape(const char* name, Shape found, const std::string& expected) {
  throw Error(ErrorCode::shape,
              std::string(name) + " " + to_string(found) + "; expected " + expected);
}

// The shape [..., length, columns] with the leading dimensions of `like`.
TensorShape matrices_like(Shape like, int64_t length, int64_t columns) {
  TensorShape s;
  s.rank = static_cast<int>(like.size());
  std::copy_n(like.data(), like.size() - 2, s.lengths);
  s.lengths[s.rank - 2] = length, s.lengths[s.rank - 1] = columns;
  return s;
}

void require_tensor(const char* name, const TensorView& view) {
  if (!view.defined()) throw Error(ErrorCode::argument, std::string(name) + " is missing");
}

// Checks a tensor whose rows lie at equal distances.
void check_row_input(const char* name, const TensorView& view, Shape expected, DType dtype) {
  require_tensor(name, view);
  if (!std::ranges::equal(view.dims(), expected))
    fail_shape(name, view.dims(), to_string(expected));
  if (view.dtype != dtype)
    throw Error(ErrorCode::dtype, std::string(name) + " is " + name_of(view.dtype) + "; expected " +
                                      name_of(dtype) + ", as the layer");
  if (!view.empty() && !view.data)
    throw Error(ErrorCode::argument, std::string(name) + " has elements but a null data pointer");
  check_alignment(name, view);
  as_matrix(view);
}

void check_row_output(const char* name, const TensorView& view, Shape expected, DType dtype) {
  require_tensor(name, view);
  check_output_tensor(name, view, expected, dtype);
  as_matrix(view);
}

struct NamedView {
  const char* name;
  const TensorView* view;
};

// Throws Error(overlap) if one of `outputs` shares memory with an input or another output.
void check_all_apart(std::initializer_list<NamedView> outputs,
                     std::initializer_list<NamedView> inputs) {
  for (const NamedView* a = outputs.begin(); a != outputs.end(); ++a) {
    if (!a->view->defined()) continue;
    for (const NamedView& b : inputs) check_apart(a->name, *a->view, b.name, *b.view);
    for (const NamedView* b = outputs.begin(); b != a; ++b)
      check_apart(a->name, *a->view, b->name, *b->view);
  }
}

void check_inputs(const MultiHeadAttention& layer, const TensorView& x, const MultiHeadCall& call,
                  const MultiHeadShapes& shapes) {
  check_row_input("x", x, shapes.x, layer.dtype());
  if (!call.key_value.defined()) {
    if (call.value.defined())
      throw Error(ErrorCode::argument,
                  "value without key_value; give both, or neither for self-attention");
    return;
  }
  check_row_input("key_value", call.key_value, shapes.key_value, layer.dtype());
  if (call.value.defined())
    check_row_input("value", call.value, shapes.value, layer.dtype());
  else if (layer.vdim != layer.kdim)
    throw Error(ErrorCode::argument, "value is missing; the layer has kdim " +
                                         std::to_string(layer.kdim) + " and vdim " +
                                         std::to_string(layer.vdim));
}

void check_state_tensors(const MultiHeadAttention& layer, const MultiHeadAttention::State& state,
                         const MultiHeadShapes& shapes) {
  const DType dtype = layer.dtype();
  check_output("state.projections", state.projections, shapes.projections, dtype);
  if (!shapes.joint)
    check_output("state.key_value", state.key_value, shapes.keys, dtype);
  else if (state.key_value.defined())
    throw Error(ErrorCode::argument,
                "state.key_value is given for self-attention, whose projections hold keys and "
                "values; make_state() without the shape of key_value");
  check_output("state.attention", state.attention, shapes.attention, dtype);
  if (layer.q_norm) check_head_norms(layer, state);
  check_output("state.statistic", state.statistic, shapes.statistic,
               dtype == DType::f64 ? DType::f64 : DType::f32);
}

}  // namespace

MultiHeadShapes::MultiHeadShapes(const MultiHeadAttention& layer, Shape of_x, Shape of_key_value) {
  if (of_x.size() < 2 || of_x.size() >= kMaxRank || of_x.back() != layer.embed_dim)
    fail_shape("x", of_x, "[..., length, " + std::to_string(layer.embed_dim) + "]");
  const bool self = of_key_value.empty();
  if (self && (layer.kdim != layer.embed_dim || layer.vdim != layer.embed_dim))
    throw Error(ErrorCode::argument, "key_value is missing; the layer has kdim " +
                                         std::to_string(layer.kdim) + " and vdim " +
                                         std::to_string(layer.vdim));
  const Shape from = self ? of_x : of_key_value;
  bool fits = from.size() == of_x.size() && from.back() == layer.kdim;
  for (size_t i = 0; fits && i + 2 < from.size(); ++i) fits = from[i] == of_x[i] || from[i] == 1;
  if (!fits)
    fail_shape("key_value", from,
               "[..., k_len, " + std::to_string(layer.kdim) +
                   "] with the leading dimensions of x " + to_string(of_x) + ", or 1");
  joint = self && layer.appended_keys() == 0;
  const int64_t length = of_x[of_x.size() - 2], k_len = from[from.size() - 2];
  x = matrices_like(of_x, length, layer.embed_dim);
  key_value = matrices_like(from, k_len, layer.kdim);
  value = matrices_like(from, k_len, layer.vdim);
  projections = matrices_like(of_x, length, layer.inner() + (joint ? 2 * layer.kv() : 0));
  if (!joint) keys = matrices_like(from, k_len + layer.appended_keys(), 2 * layer.kv());
  attention = matrices_like(of_x, length, layer.inner());
  statistic = matrices_like(of_x, layer.num_heads, length);
}

void check_forward(const MultiHeadAttention& layer, const TensorView& x, const TensorView& y,
                   const MultiHeadAttention::State& state, const MultiHeadCall& call) {
  require_tensor("x", x);
  const MultiHeadShapes shapes(layer, x.dims(), call.key_value.dims());
  check_inputs(layer, x, call, shapes);
  check_state_tensors(layer, state, shapes);
  check_row_output("y", y, shapes.x, layer.dtype());
  check_all_apart({{"y", &y},
                   {"state.projections", &state.projections},
                   {"state.key_value", &state.key_value},
                   {"state.attention", &state.attention},
                   {"state.statistic", &state.statistic}},
                  {{"x", &x}, {"key_value", &call.key_value}, {"value", &call.value}});
}

void check_backward(const MultiHeadAttention& layer, const TensorView& x, const TensorView& d_y,
                    const MultiHeadAttention::State& state, const TensorView& d_x,
                    const MultiHeadCall& call, const MultiHeadGradients& gradients) {
  require_tensor("x", x);
  const MultiHeadShapes shapes(layer, x.dims(), call.key_value.dims());
  const DType dtype = layer.dtype();
  check_inputs(layer, x, call, shapes);
  check_state_tensors(layer, state, shapes);
  check_row_input("d_y", d_y, shapes.x, dtype);
  if (d_x.defined()) check_row_output("d_x", d_x, shapes.x, dtype);
  const auto check_gradient = [&](const char* name, const TensorView& view, bool has_input,
                                  const TensorShape& shape) {
    if (!view.defined()) return;
    if (!has_input)
      throw Error(ErrorCode::argument, std::string("memory for the gradient of ") + name +
                                           ", which the call does not have; leave it out");
    check_row_output(name, view, shape, dtype);
  };
  check_gradient("d_key_value", gradients.key_value, call.key_value.defined(), shapes.key_value);
  check_gradient("d_value", gradients.value, call.value.defined(), shapes.value);
  check_all_apart(
      {{"d_x", &d_x}, {"d_key_value", &gradients.key_value}, {"d_value", &gradients.value}},
      {{"x", &x},
       {"d_y", &d_y},
       {"key_value", &call.key_value},
       {"value", &call.value},
       {"state.projections", &state.projections},
       {"state.key_value", &state.key_value},
       {"state.attention", &state.attention},
       {"state.statistic", &state.statistic},
       {"d_bias", &gradients.bias}});
}

ProjectionPart query_part(const MultiHeadAttention& layer) { return {0, layer.inner()}; }
ProjectionPart key_part(const MultiHeadAttention& layer) {
  return {layer.inner(), layer.inner() + layer.kv()};
}
ProjectionPart value_part(const MultiHeadAttention& layer) {
  return {layer.inner() + layer.kv(), layer.inner() + 2 * layer.kv()};
}

KeyMatrices::KeyMatrices(const TensorView& keys, int64_t appended_rows) {
  const int64_t total = as_matrix(keys).shape[0];
  count = 1, rows = distance = total;
  if (appended_rows == 0) return;
  distance = keys.shape[keys.rank - 2];
  count = total / distance, rows = distance - appended_rows;
}

TensorView KeyMatrices::appended(const TensorView& keys) const {
  const int64_t first = count > 0 ? rows : 0;
  TensorView all = as_matrix(keys).slice(0, first, first + std::min<int64_t>(count, 1));
  all.shape[0] = count;
  all.strides[0] *= distance;
  return all;
}

TensorView query_rows(const MultiHeadAttention& layer, const TensorView& projections, bool joint) {
  return joint ? projections.slice(-1, 0, layer.inner()) : projections;
}

TensorView key_rows(const MultiHeadAttention& layer, const TensorView& keys, bool joint) {
  const int64_t begin = joint ? layer.inner() : 0;
  return keys.slice(-1, begin, begin + layer.kv());
}

HeadViews::HeadViews(const MultiHeadAttention& layer, const MultiHeadAttention::State& state) {
  const bool joint = !state.key_value.defined();
  const TensorView& keys = joint ? state.projections : state.key_value;
  const int64_t begin = (joint ? layer.inner() : 0) + layer.kv();
  const bool normed = state.normed_query.defined();
  query = normed ? state.normed_query.transposed(-3, -2)
                 : split_heads(query_rows(layer, state.projections, joint), layer.num_heads);
  key = normed ? state.normed_key.transposed(-3, -2)
               : split_heads(key_rows(layer, keys, joint), layer.num_kv_heads);
  value = split_heads(keys.slice(-1, begin, begin + layer.kv()), layer.num_kv_heads);
  output = split_heads(state.attention, layer.num_heads);
}

namespace {

void need_product(const Run& run, const TensorView& rows, const TensorView& weight) {
  run.scratch.need(product_workspace_bytes(rows.shape[0], weight.shape[1], weight.shape[0],
                                           weight.dtype, run.context));
}

}  // namespace

void Products::forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                       const TensorView& y) const {
  if (run.counts()) return need_product(run, x, weight);
  ProductOptions options;
  if (bias.defined()) options.bias = bias;
  multiply(x, weight, y, options, run.context, run.scratch.rest());
}

void Products::input_gradient(const TensorView& d_y, const TensorView& weight,
                              const TensorView& d_x, bool add) const {
  if (run.counts()) return need_product(run, d_y, weight);
  multiply_gradient(d_y, weight, d_x, add, run.context, run.scratch.rest());
}

void Products::weight_gradient(const TensorView& d_y, const TensorView& x,
                               const TensorView& d_weight, const TensorView& d_bias) const {
  if (run.counts())
    return run.scratch.need(
        product_workspace_bytes(d_y.shape[0], x.shape[1], d_y.shape[1], d_y.dtype, run.context));
  add_weight_gradient(d_y, x, d_weight, d_bias, run.context, run.scratch.rest());
}

}  // namespace rapt::nn
