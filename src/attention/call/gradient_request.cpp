// Checks of a backward call: the request, its inputs, its outputs.
#include "attention/call/gradient_request.h"

#include <algorithm>
#include <string>

#include "attention/call/learned_parameters.h"
#include "attention/call/output_memory.h"
#include "attention/call/relative_positions.h"
#include "base/check_argument.h"
#include "kernels/kernel_table.h"

namespace rapt {
namespace {

void require(const char* name, const TensorView& view, const char* what) {
  if (!view.defined())
    fail(ErrorCode::argument, name, std::string(name) + " is missing; the call needs " + what);
}

// Checks that outputs do not overlap the tensors of check_gradient_inputs().
void check_apart_from_gradient_inputs(const OutputMemory& memory, const BackwardInputs& inputs) {
  const auto apart = [&](const char* name, const TensorView& view) {
    if (view.defined()) memory.check_apart(name, extent_of(name, view));
  };
  apart("state.output", inputs.state.output);
  apart("state.statistic", inputs.state.statistic);
  apart("d_output", inputs.d_output);
  apart("d_statistic", inputs.d_statistic);
  apart("d_weights", inputs.d_weights);
}

// The heads of a request, count 0 for all. Throws Error(argument, unsupported).
HeadRange part_of_heads(const Problem& p, const BackwardRequest& request, const Method* method) {
  const HeadRange& heads = request.heads;
  if (heads.first == 0 && heads.count == 0) return {};
  const int64_t all = p.leading_rank > 0 ? p.leading[p.leading_rank - 1] : 1;
  if (heads.first < 0 || heads.count <= 0 || heads.count > all || heads.first > all - heads.count)
    fail(ErrorCode::argument, "heads",
         std::to_string(heads.count) + " heads from head " + std::to_string(heads.first) +
             " on; expected 1 or more of the " + std::to_string(all) +
             " of the last leading dimension");
  if (heads.count == all) return {};
  const char* const whole = method             ? "a method"
                            : request.bias     ? "the gradient of a bias"
                            : request.relative ? "gradients of relative positions"
                                               : nullptr;
  if (whole)
    fail(ErrorCode::unsupported, "heads",
         std::string("a part of the heads beside ") + whole + "; expected all heads");
  return heads;
}

// The matrices of an operand are those of a part of the heads. Moves its begin to where the matrix
// of head 0 would lie, which is not read.
void begin_at_head_0(const HeadRange& heads, const Problem& p, int64_t matrices, Operand& operand) {
  if (!operand.data || heads.count == 0) return;
  operand.heads_per_group = heads.count / matrices;
  const int64_t elements =
      heads.first / operand.heads_per_group * operand.lead_strides[p.leading_rank - 1];
  operand.data = reinterpret_cast<void*>(reinterpret_cast<intptr_t>(operand.data) -
                                         elements * size_of(operand.dtype));
}

}  // namespace

RowShape::RowShape(const Problem& p, std::initializer_list<int64_t> last) : rank(p.leading_rank) {
  std::copy_n(p.leading, p.leading_rank, lengths);
  for (const int64_t n : last) lengths[rank++] = n;
}

void check_read(const char* name, const TensorView& view, Shape expected, DType dtype) {
  if (!std::ranges::equal(view.dims(), expected))
    fail(ErrorCode::shape, name, described(name, view) + "; expected " + to_string(expected));
  if (view.dtype != dtype)
    fail(ErrorCode::dtype, name,
         described(name, view) + " is " + name_of(view.dtype) + "; expected " + name_of(dtype));
  if (!view.data && !view.empty())
    fail(ErrorCode::argument, name,
         described(name, view) + " has elements but a null data pointer");
  extent_of(name, view);
  check_alignment(name, view);
}

void take_rows(const char* name, const TensorView& view, const RowShape& shape, DType dtype,
               bool matrix, Operand& operand) {
  check_read(name, view, shape, dtype);
  take_output_operand(view, matrix, operand);
  if (view.empty()) operand.data = nullptr;
}

namespace {

void want_relative(const RelativePositions& relative, bool two_passes, WantedGradients& w) {
  if (!relative.any())
    fail(ErrorCode::argument, "relative",
         "gradients of relative positions, but options.relative has no tensor");
  if (two_passes)
    fail(
        ErrorCode::unsupported, "relative",
        "gradients of relative positions in two passes: their sums over pairs of the same distance "
        "take workspace; expected one pass");
  w.key_rows = relative.key_rows.defined();
  w.query_rows = relative.query_rows.defined();
  w.value_rows = relative.value_rows.defined();
  w.content_bias = relative.content_bias.defined();
  w.position_bias = relative.position_bias.defined();
}

template <class Variants>
void add_sums_of_heads(const Problem& p, const Variants& variants, int64_t cells,
                       const double* sums, const ParameterTarget& target) {
  int64_t all = 0, of_head = 0;
  for (const Variant variant : variants)
    all += count_parameters_of(variant), of_head += head_parameters_of(variant);
  for (int64_t n = 0; n < all; ++n) target.data[n * target.stride] = 0;
  for (int64_t head = 0; head < p.heads; ++head, sums += cells * of_head) {
    int64_t index[kMaxRank];
    p.index_of(head, index);
    int64_t first = 0, number = 0;
    for (const Variant variant : variants) {
      const int64_t count = head_parameters_of(variant);
      for (int64_t nth = 0; nth < count; ++nth, ++number) {
        const int64_t place = first + place_of_parameter(variant, p, index, nth);
        for (int64_t c = 0; c < cells; ++c)
          target.data[place * target.stride] += sums[c * of_head + number];
      }
      first += count_parameters_of(variant);
    }
  }
}

}  // namespace

void count_parameters(std::span<const ScoreRef> scores, WantedGradients& w) {
  for (size_t s = 0; s < scores.size(); ++s) {
    w.score_parameter_count += count_parameters_of(scores[s]);
    w.parameter_counts[s] = head_parameters_of(scores[s]);
    w.head_parameter_count += w.parameter_counts[s];
  }
}

WantedGradients wanted_gradients(const CheckedCall& call, const BackwardRequest& request) {
  const Problem& p = call.problem;
  const AttentionOptions& options = call.options;
  WantedGradients w;
  w.query = request.query, w.key = request.key, w.value = request.value;
  w.bias = request.bias, w.scale = request.scale, w.score_parameters = request.score_parameters;
  w.dtype = request.dtype.value_or(p.dtype);
  if (w.dtype != p.dtype && w.dtype != p.result_dtype)
    fail(ErrorCode::dtype, "dtype",
         std::string("gradients in ") + name_of(w.dtype) + " of " + name_of(p.dtype) +
             " inputs; expected " + name_of(p.dtype) +
             (p.dtype == p.result_dtype ? "" : " or f32"));
  if (request.passes != BackwardPasses::one && request.passes != BackwardPasses::two)
    fail(ErrorCode::argument, "passes", "unknown passes; expected one or two");
  w.two_passes = request.passes == BackwardPasses::two;
  if (w.bias && !p.has_bias)
    fail(ErrorCode::argument, "bias", "the gradient of a bias, but the options have none");
  count_parameters(options.scores, w);
  if (request.relative) want_relative(options.relative, w.two_passes, w);
  w.query_rows_sums = w.query_rows || (w.scale && p.relative.query);
  if (w.query_rows_sums && w.two_passes)
    fail(ErrorCode::unsupported, "scale",
         "the gradient of the scale with relative.query_rows in two passes; expected one pass");
  w.heads = part_of_heads(p, request, options.method);
  w.normalizer_parameters = request.normalizer_parameters;
  if (w.normalizer_parameters) {
    w.normalizer_parameter_count = count_parameters_of(options.normalizer);
    w.normalizer_head_parameter_count = head_parameters_of(options.normalizer);
  }
  if (w.score_parameters && w.score_parameter_count == 0)
    fail(ErrorCode::argument, "score_parameters",
         "gradients of the parameters of scores, but the options have no score with real ones");
  return w;
}

void add_parameter_gradients(const Problem& p, std::span<const ScoreRef> scores, int64_t cells,
                             const double* sums, const ParameterTarget& target) {
  add_sums_of_heads(p, scores, cells, sums, target);
}
void add_parameter_gradients(const Problem& p, std::span<const NormalizerRef> normalizer,
                             int64_t cells, const double* sums, const ParameterTarget& target) {
  add_sums_of_heads(p, normalizer, cells, sums, target);
}

void describe_gradients(const CheckedCall& call, const WantedGradients& w,
                        GradientSpec (&specs)[kGradients]) {
  const Problem& p = call.problem;
  const auto put = [&](int i, const char* name, TensorView GradientOutputs::*view,
                       Tensor Gradients::*tensor, bool wanted, DType dtype, Shape shape) {
    GradientSpec& s = specs[i];
    s.name = name, s.view = view, s.tensor = tensor, s.wanted = wanted, s.dtype = dtype;
    s.rank = static_cast<int>(shape.size());
    std::copy_n(shape.data(), shape.size(), s.shape);
  };
  put(0, "d_query", &GradientOutputs::d_query, &Gradients::d_query, w.query, w.dtype,
      call.query.dims());
  put(1, "d_key", &GradientOutputs::d_key, &Gradients::d_key, w.key, w.dtype, call.key.dims());
  put(2, "d_value", &GradientOutputs::d_value, &Gradients::d_value, w.value, w.dtype,
      call.value.dims());
  // The matrices that a part of the heads reads. A part of the heads of one matrix was rejected.
  for (GradientSpec& spec : std::span(specs, w.heads.count > 0 ? 3 : 0))
    if (spec.rank > 2) {
      int64_t& matrices = spec.shape[spec.rank - 3];
      const int64_t heads_of_matrix = p.leading[p.leading_rank - 1] / matrices;
      matrices = w.heads.count / heads_of_matrix;
    }
  put(3, "d_bias", &GradientOutputs::d_bias, &Gradients::d_bias, w.bias, p.result_dtype,
      call.options.bias.dims());
  put(4, "d_scale", &GradientOutputs::d_scale, &Gradients::d_scale, w.scale, DType::f64, {});
  const int64_t parameters[] = {w.score_parameter_count};
  put(5, "d_score_parameters", &GradientOutputs::d_score_parameters, &Gradients::d_score_parameters,
      w.score_parameters, DType::f64, parameters);
  const int64_t of_normalizer[] = {w.normalizer_parameter_count};
  put(6, "d_normalizer_parameters", &GradientOutputs::d_normalizer_parameters,
      &Gradients::d_normalizer_parameters, w.normalizer_parameters, DType::f64, of_normalizer);
  const RelativePositions& r = call.options.relative;
  put(7, "d_key_rows", &GradientOutputs::d_key_rows, &Gradients::d_key_rows, w.key_rows,
      p.result_dtype, r.key_rows.dims());
  put(8, "d_query_rows", &GradientOutputs::d_query_rows, &Gradients::d_query_rows, w.query_rows,
      p.result_dtype, r.query_rows.dims());
  put(9, "d_value_rows", &GradientOutputs::d_value_rows, &Gradients::d_value_rows, w.value_rows,
      p.result_dtype, r.value_rows.dims());
  put(10, "d_content_bias", &GradientOutputs::d_content_bias, &Gradients::d_content_bias,
      w.content_bias, p.result_dtype, r.content_bias.dims());
  put(11, "d_position_bias", &GradientOutputs::d_position_bias, &Gradients::d_position_bias,
      w.position_bias, p.result_dtype, r.position_bias.dims());
}

void require_statistic(const char* name, const NormalizerRef& normalizer) {
  if (normalizer.statistic == Statistic::none)
    fail(ErrorCode::unsupported, name,
         std::string(name) + " is given, but normalizer " + normalizer.declaration->name +
             " has no statistic; leave it out");
}

void check_state(const Problem& p, const AttentionState& state, GradientInputs& in) {
  require("state.output", state.output, "the forward pass's output");
  require("state.statistic", state.statistic, "the forward pass's statistic (lse)");
  take_rows("state.output", state.output, {p, {p.q_len, p.value_dim}}, p.output_dtype, true,
            in.output);
  take_rows("state.statistic", state.statistic, {p, {p.q_len}}, p.result_dtype, false,
            in.statistic);
}

GradientInputs check_gradient_inputs(const CheckedCall& call, const BackwardInputs& given,
                                     const HeadRange& heads) {
  const Problem& p = call.problem;
  const AttentionOptions& options = call.options;
  GradientInputs in;
  check_state(p, given.state, in);
  require("d_output", given.d_output, "the gradient of the output");
  RowShape d_output(p, {p.q_len, p.value_dim});
  if (heads.count > 0) d_output.lengths[p.leading_rank - 1] = heads.count;
  take_rows("d_output", given.d_output, d_output, p.output_dtype, true, in.d_output);
  begin_at_head_0(heads, p, heads.count, in.d_output);
  if (given.d_statistic.defined()) require_statistic("d_statistic", options.normalizer);
  if (given.d_statistic.defined())
    take_rows("d_statistic", given.d_statistic, {p, {p.q_len}}, p.result_dtype, false,
              in.d_statistic);
  if (!given.d_weights.defined()) return in;
  if (!options.weights)
    fail(ErrorCode::argument, "d_weights",
         "d_weights, but options.weights do not say which weights were returned");
  if (options.weights->stage != WeightsStage::weights)
    fail(ErrorCode::unsupported, "d_weights",
         "d_weights of returned scores; expected options.weights with the stage `weights`");
  AttentionOptions weights_alone;
  weights_alone.weights = options.weights;
  const Captures captures = requested_captures(p, weights_alone);
  OutputSpec specs[kOutputs];
  describe_outputs(p, captures, false, specs);
  const OutputSpec& spec = specs[2];
  check_read("d_weights", given.d_weights, spec.dims(), spec.dtype);
  take_output_operand(given.d_weights, true, in.d_weights);
  if (given.d_weights.empty()) in.d_weights.data = nullptr;
  in.weights = captures.weights;
  return in;
}

GradientTargets check_gradient_outputs(const CheckedCall& call,
                                       const GradientSpec (&specs)[kGradients],
                                       const HeadRange& heads, const BackwardInputs& inputs,
                                       const GradientOutputs& given,
                                       std::span<const std::byte> workspace) {
  const Problem& p = call.problem;
  OutputMemory memory;
  for (const GradientSpec& spec : specs) {
    const TensorView& view = given.*spec.view;
    memory.add_result(spec, view, "the request does");
  }
  memory.add_written(call.options.method);
  memory.add_workspace(workspace);
  memory.check_apart_from_inputs(call);
  check_apart_from_gradient_inputs(memory, inputs);
  memory.check_apart_from_each_other();

  GradientTargets targets;
  const auto take = [&](const GradientSpec& spec, Operand& operand) {
    const TensorView& view = given.*spec.view;
    if (!spec.wanted || view.empty()) return;
    take_operand(view, p, operand);
    if (view.rank > 2) begin_at_head_0(heads, p, view.shape[view.rank - 3], operand);
  };
  take(specs[0], targets.query);
  take(specs[1], targets.key);
  take(specs[2], targets.value);
  if (specs[3].wanted && !given.d_bias.empty()) take_bias_operand(given.d_bias, p, targets.bias);
  if (specs[4].wanted) targets.scale = static_cast<double*>(given.d_scale.data);
  const auto parameters = [](const TensorView& view) -> ParameterTarget {
    return {static_cast<double*>(view.data), view.strides[0]};
  };
  if (specs[5].wanted) targets.score_parameters = parameters(given.d_score_parameters);
  if (specs[6].wanted) targets.normalizer_parameters = parameters(given.d_normalizer_parameters);
  const auto take_table = [&](const GradientSpec& spec, int own_rank, Operand& operand) {
    const TensorView& view = given.*spec.view;
    if (spec.wanted && !view.empty()) take_relative_operand(view, own_rank, p, operand);
  };
  take_table(specs[7], 2, targets.key_rows);
  take_table(specs[8], 2, targets.query_rows);
  take_table(specs[9], 2, targets.value_rows);
  take_table(specs[10], 1, targets.content_bias);
  take_table(specs[11], 1, targets.position_bias);
  return targets;
}

}  // namespace rapt
