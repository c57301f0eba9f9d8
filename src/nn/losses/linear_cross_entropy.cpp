#include "rapt/nn/linear_cross_entropy.h"

#include <algorithm>

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/leading.h"
#include "nn/losses/targets.h"
#include "nn/row_tasks.h"
#include "nn/rowwise/token_rows.h"
#include "rapt/backward.h"
#include "rapt/product.h"

namespace rapt::nn {
namespace {

// Classes of one call of attention's backward pass: the gradients of so many rows of the weight are
// in scratch before they are added.
constexpr int64_t kClassBlock = 2048;

// A tensor without elements, for values and outputs of size 0.
TensorView nothing(int64_t rows, DType dtype) {
  static std::byte none[64];
  const int64_t shape[] = {rows, 0};
  return {none, dtype, shape, false};
}

// A call of either pass: x [rows, features], weight [classes, features], targets and lse [rows].
struct LossCall {
  TensorView x, weight, targets, lse;
  const CrossEntropyOptions& options;
  const Run& run;
  DType dtype, computed;  // of all tensors; f64 for f64, else f32
  int64_t rows, features, classes;

  double smoothing() const { return options.label_smoothing; }
  bool ignores(int64_t row) const { return target(row) == options.ignore_index; }
  int64_t target(int64_t row) const { return static_cast<const int64_t*>(targets.data)[row]; }

  TensorView take(std::initializer_list<int64_t> shape) const {
    return run.scratch.take(computed, shape);
  }
  // Counts the workspace of a product of these sizes.
  void need_product(int64_t m, int64_t in, int64_t out) const {
    if (run.counts()) run.scratch.need(product_workspace_bytes(m, in, out, computed, run.context));
  }
};

AttentionOptions logits_as_scores() {
  AttentionOptions options;
  options.scale = 1;
  return options;
}

LossCall loss_call(const TensorView& x, const Parameter& weight, const TensorView& targets,
                   const TensorView& lse, const Run& run, const CrossEntropyOptions& options) {
  const TensorView table = weight.value.view();
  if (table.rank != 2 || table.shape[1] < 1)
    throw Error(ErrorCode::shape, "weight " + to_string(table.dims()) +
                                      "; expected [classes, features], features 1 or more");
  check_last("x", x, "features", table.shape[1]);
  if (!run.counts()) {
    check_input("weight", table, table.dims(), table.dtype);
    check_input("x", x, x.dims(), table.dtype);
    check_targets(targets, leading_dims(x), table.shape[0], options);
  }
  const int64_t rows[] = {rows_of(x)};
  const auto flat = [&](const TensorView& view) {
    return TensorView(view.data, view.dtype, rows, view.read_only);
  };
  return {.x = as_matrix(x),
          .weight = table,
          .targets = flat(targets),
          .lse = flat(lse),
          .options = options,
          .run = run,
          .dtype = table.dtype,
          .computed = computed_type(table.dtype),
          .rows = rows[0],
          .features = table.shape[1],
          .classes = table.shape[0]};
}

void clear(const TensorView& view) {
  std::fill_n(static_cast<std::byte*>(view.data), view.count() * size_of(view.dtype), std::byte(0));
}

// The sum of all rows of the weight [1, features], in scratch.
TensorView sum_of_weight(const LossCall& call) {
  const TensorView sum = call.take({1, call.features});
  call.need_product(call.classes, 0, call.features);
  if (call.run.counts()) return sum;
  clear(sum);
  TensorView flat = sum;
  flat.rank = 1, flat.shape[0] = call.features, flat.strides[0] = 1;
  add_weight_gradient(call.weight, nothing(call.classes, call.dtype), {}, flat, call.run.context,
                      call.run.scratch.rest());
  return sum;
}

// The lse of all rows.
void store_lse(const LossCall& call) {
  const AttentionOptions options = logits_as_scores();
  const TensorView value = nothing(call.classes, call.dtype);
  if (call.run.counts()) {
    call.run.scratch.need(workspace_bytes(call.x, call.weight, value, options, call.run.context));
    return;
  }
  AttentionOutputs outputs;
  outputs.state = {.output = nothing(call.rows, call.dtype), .statistic = call.lse};
  scaled_dot_product_attention(call.x, call.weight, value, options, outputs,
                               call.run.scratch.rest(), call.run.context);
}

// The losses [rows] f64 from the lse and, with smoothing, the sums of logits [rows, 1].
template <class E>
void store_losses(const LossCall& call, const TensorView& sums, const TensorView& losses) {
  const double s = call.smoothing(), share = s / static_cast<double>(call.classes);
  const auto dots = layer_kernels<E>().losses.target_dots[static_cast<int>(call.dtype)];
  const auto* const target = static_cast<const int64_t*>(call.targets.data);
  for_ranges(
      call.run.context, call.rows, static_cast<double>(call.rows * call.features),
      [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          E dot;
          dots(element_at(call.x, r * call.features), call.weight.data, target + r, 1,
               call.features, call.options.ignore_index, &dot);
          double mixed = (1 - s) * static_cast<double>(dot);
          if (s > 0) mixed += share * static_cast<double>(static_cast<E*>(sums.data)[r]);
          static_cast<double*>(losses.data)[r] =
              call.ignores(r) ? 0 : static_cast<double>(static_cast<E*>(call.lse.data)[r]) - mixed;
        }
      });
}

// to += from, both dense and of the computed type.
void add_to(const TensorView& from, const TensorView& to, const Context& context) {
  in_computed_type("sums", from.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().rows.add[static_cast<int>(from.dtype)];
    for_ranges(context, from.count(), static_cast<double>(from.count()),
               [&](int64_t begin, int64_t end) {
                 function(element_at(from, begin), end - begin, element_at(to, begin));
               });
  });
}

// The gradient through the lse of all rows, whose gradients are `factors` [rows]. d_x, of the
// computed type, is overwritten, and the weight's gradient added to; either may be absent.
void add_lse_gradient(const LossCall& call, const TensorView& factors, const TensorView& d_x,
                      const TensorView& gradient) {
  const Arena::Frame frame(call.run.scratch);
  const int64_t block = std::min(kClassBlock, call.classes);
  TensorView of_rows, of_block;
  if (d_x.defined() && block < call.classes) of_rows = call.take({call.rows, call.features});
  if (gradient.defined()) of_block = call.take({block, call.features});
  const AttentionOptions options = logits_as_scores();
  BackwardRequest request;
  request.query = d_x.defined(), request.key = gradient.defined(), request.value = false;
  if (call.computed == DType::f32) request.dtype = DType::f32;
  for (int64_t begin = 0; begin < call.classes || begin == 0; begin += kClassBlock) {
    const int64_t end = std::min(begin + kClassBlock, call.classes);
    const TensorView key = call.weight.slice(0, begin, end);
    const TensorView value = nothing(end - begin, call.dtype);
    if (call.run.counts()) {
      call.run.scratch.need(
          backward_workspace_bytes(call.x, key, value, options, request, call.run.context));
      continue;
    }
    BackwardInputs inputs;
    inputs.state = {.output = nothing(call.rows, call.dtype), .statistic = call.lse};
    inputs.d_output = inputs.state.output, inputs.d_statistic = factors;
    GradientOutputs outputs;
    if (d_x.defined()) outputs.d_query = begin == 0 ? d_x : of_rows;
    if (gradient.defined()) outputs.d_key = of_block.slice(0, 0, end - begin);
    scaled_dot_product_attention_backward(call.x, key, value, options, inputs, request, outputs,
                                          call.run.scratch.rest(), call.run.context);
    if (begin > 0 && d_x.defined()) add_to(of_rows, d_x, call.run.context);
    if (gradient.defined()) add_to(outputs.d_key, gradient.slice(0, begin, end), call.run.context);
  }
}

// What a row's loss passes on, beside the lse, to the logit of its target, and to every logit
// [rows, 1] where labels are smoothed.
struct LogitGradients {
  double of_target;
  TensorView of_all;
};

// What the logits of targets and of all classes add to d_x, of the computed type.
void add_logit_gradients(const LossCall& call, const LogitGradients& d, const TensorView& d_x) {
  const Arena::Frame frame(call.run.scratch);
  if (call.smoothing() > 0) {
    const TensorView sum = sum_of_weight(call);
    call.need_product(call.rows, call.features, 1);
    if (!call.run.counts())
      multiply_gradient(d.of_all, sum, d_x, true, call.run.context, call.run.scratch.rest());
  }
  if (call.run.counts()) return;
  in_computed_type("x", call.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().rows.add_scaled[static_cast<int>(call.dtype)];
    for_ranges(call.run.context, call.rows, static_cast<double>(call.rows * call.features),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   if (!call.ignores(r))
                     function(element_at(call.weight, call.target(r) * call.features),
                              call.features, static_cast<E>(d.of_target),
                              static_cast<E*>(d_x.data) + r * call.features);
               });
  });
}

// The same for the weight's gradient.
void add_weight_gradients(const LossCall& call, const LogitGradients& d,
                          const TensorView& gradient) {
  const Arena::Frame frame(call.run.scratch);
  if (call.smoothing() > 0) {  // the same row for all classes
    const TensorView row = call.take({1, call.features});
    call.need_product(call.rows, call.features, 1);
    call.need_product(call.classes, call.features, 1);
    if (!call.run.counts()) {
      clear(row);
      add_weight_gradient(d.of_all, call.x, row, {}, call.run.context, call.run.scratch.rest());
      static constexpr float kOne = 1;
      static constexpr double kOneF64 = 1;
      const int64_t shape[] = {call.classes, 1}, repeated[] = {0, 1};
      const void* one = &kOne;
      if (call.computed == DType::f64) one = &kOneF64;
      const TensorView ones(const_cast<void*>(one), call.computed, shape, repeated, true);
      multiply_gradient(ones, row, gradient, true, call.run.context, call.run.scratch.rest());
    }
  }
  SortedTokens sorted(call.classes, call.rows, call.run.scratch);
  if (call.run.counts()) return;
  sorted.sort(call.targets, call.options.ignore_index);
  add_token_rows(sorted, call.x, d.of_target, gradient, call.run.context);
}

// Writes the gradients of the lse of rows to `factors` [rows].
LogitGradients fill_factors(const LossCall& call, double d_loss, const TensorView& factors,
                            const TensorView& of_all) {
  const double factor = d_loss * loss_factor(call.targets, call.options);
  const double s = call.smoothing(), share = factor * s / static_cast<double>(call.classes);
  in_computed_type("x", call.dtype, [&]<class E>() {
    for (int64_t r = 0; r < call.rows; ++r) {
      const bool ignored = call.ignores(r);
      static_cast<E*>(factors.data)[r] = ignored ? E(0) : static_cast<E>(factor);
      if (s > 0) static_cast<E*>(of_all.data)[r] = ignored ? E(0) : static_cast<E>(-share);
    }
  });
  return {.of_target = -factor * (1 - s), .of_all = of_all};
}

// to [rows, features] = sums, or to + sums.
void store_rows(const LossCall& call, const TensorView& sums, const TensorView& to, bool add) {
  in_computed_type("x", call.dtype, [&]<class E>() {
    const auto function = kernels<E>().matrices.store[static_cast<int>(call.dtype)];
    for_ranges(call.run.context, call.rows, static_cast<double>(sums.count()),
               [&](int64_t begin, int64_t end) {
                 ProductStore<E> store;
                 store.add = add;
                 store.out = element_at(to, begin * call.features);
                 store.row_stride = call.features;
                 function(static_cast<const E*>(sums.data) + begin * call.features, call.features,
                          end - begin, call.features, store);
               });
  });
}

void check_gradient_call(const LossCall& call, const TensorView& x, const Parameter& weight,
                         const TensorView& targets, const TensorView& lse, const TensorView& d_x) {
  check_input("lse", lse, targets.dims(), call.computed);
  if (weight.learns())
    check_input("the gradient of weight", weight.gradient, call.weight.dims(), call.computed);
  if (!d_x.defined()) return;
  check_output("d_x", d_x, x.dims(), call.dtype);
  check_apart("d_x", d_x, "x", x);
  check_apart("d_x", d_x, "weight", call.weight);
  check_apart("d_x", d_x, "targets", targets);
  check_apart("d_x", d_x, "lse", lse);
}

}  // namespace

double linear_cross_entropy(const TensorView& x, const Parameter& weight, const TensorView& targets,
                            const TensorView& lse, const Run& run,
                            const CrossEntropyOptions& options) {
  const LossCall call = loss_call(x, weight, targets, lse, run, options);
  if (!run.counts()) {
    check_output("lse", lse, targets.dims(), call.computed);
    check_apart("lse", lse, "x", x);
    check_apart("lse", lse, "weight", call.weight);
    check_apart("lse", lse, "targets", targets);
  }
  const Arena::Frame frame(run.scratch);
  const TensorView losses = run.scratch.take(DType::f64, {call.rows});
  store_lse(call);
  TensorView sums;
  if (call.smoothing() > 0) {
    sums = call.take({call.rows, 1});
    const TensorView sum = sum_of_weight(call);
    call.need_product(call.rows, call.features, 1);
    if (!run.counts()) multiply(call.x, sum, sums, {}, run.context, run.scratch.rest());
  }
  if (run.counts()) return 0;
  in_computed_type("x", call.dtype, [&]<class E>() { store_losses<E>(call, sums, losses); });
  return reduce_losses(losses, call.targets, options);
}

void linear_cross_entropy_gradient(const TensorView& x, Parameter& weight,
                                   const TensorView& targets, const TensorView& lse,
                                   const TensorView& d_x, const Run& run,
                                   const CrossEntropyOptions& options, double d_loss, bool add) {
  const LossCall call = loss_call(x, weight, targets, lse, run, options);
  if (!run.counts()) check_gradient_call(call, x, weight, targets, lse, d_x);
  if (!d_x.defined() && !weight.learns()) return;
  const Arena::Frame frame(run.scratch);
  const TensorView factors = call.take({call.rows});
  LogitGradients d = {.of_target = 0, .of_all = {}};
  if (call.smoothing() > 0) d.of_all = call.take({call.rows, 1});
  if (!run.counts()) d = fill_factors(call, d_loss, factors, d.of_all);
  const bool in_place = !add && call.dtype == call.computed;
  TensorView sums, gradient;
  if (d_x.defined()) sums = in_place ? as_matrix(d_x) : call.take({call.rows, call.features});
  if (weight.learns()) gradient = weight.gradient.view();
  add_lse_gradient(call, factors, sums, gradient);
  if (gradient.defined()) add_weight_gradients(call, d, gradient);
  if (!d_x.defined()) return;
  add_logit_gradients(call, d, sums);
  if (!run.counts() && !in_place) store_rows(call, sums, d_x, add);
}

}  // namespace rapt::nn
