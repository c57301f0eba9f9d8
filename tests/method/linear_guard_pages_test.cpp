// favor and linear touch no byte beside their tensors: all of them, the states and the workspace
// lie flush against a page that cannot be touched, first on one side, then on the other. What lies
// between the rows of results keeps its bytes.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gradients/gradient_problems.h"
#include "hostile/guarded.h"
#include "linear_states.h"

namespace laws {
namespace {

Dims dims_of(const Tensor& t) {
  const TensorView view = t.view();
  return {view.dims().begin(), view.dims().end()};
}

void expect_guarded_forward(const Case& c, Edge edge) {
  Tensor before = state_of(c), after = state_of(c);
  WithStates method(c);
  AttentionOptions options = c.options;
  options.method = method.with({}, before.view());
  (void)scaled_dot_product_attention(c.query, c.key, c.value, options);
  options.method = method.with(before.view(), after.view());
  const AttentionResult expected = scaled_dot_product_attention(c.query, c.key, c.value, options);

  const GuardedTensor query(c.query, edge), key(c.key, edge), value(c.value, edge),
      first(before, edge), last(after.dtype(), dims_of(after), edge),
      output(expected.output.dtype(), dims_of(expected.output), edge),
      statistic(expected.statistic.dtype(), dims_of(expected.statistic), edge);
  options.method = method.with(first, last);
  const size_t bytes = rapt::plan(query, key, value, options).workspace_bytes;
  const Guarded workspace(bytes, edge);
  scaled_dot_product_attention(query, key, value, options,
                               {.state = {.output = output, .statistic = statistic}},
                               {workspace.data(), bytes});
  EXPECT_TRUE(same_bits(output.view(), expected.output));
  EXPECT_TRUE(same_bits(statistic.view(), expected.statistic));
  EXPECT_TRUE(same_bits(last.view(), after));
}

void expect_guarded_backward(const Case& c, Edge edge) {
  const GradientCase g(c);
  AttentionResult forward = scaled_dot_product_attention(c.query, c.key, c.value, c.options);
  const rapt::Gradients expected = scaled_dot_product_attention_backward(
      c.query, c.key, c.value, c.options, g.inputs(forward.state()), g.request());
  std::vector<std::unique_ptr<GuardedTensor>> tensors;
  const auto guarded = [&](const TensorView& t) -> TensorView {
    if (!t.defined()) return {};
    tensors.push_back(std::make_unique<GuardedTensor>(t, edge));
    return *tensors.back();
  };
  const TensorView query = guarded(c.query), key = guarded(c.key), value = guarded(c.value);
  BackwardInputs inputs;
  inputs.state.output = guarded(forward.output);
  inputs.state.statistic = guarded(forward.statistic);
  inputs.d_output = guarded(g.d_output);
  inputs.d_statistic = guarded(g.d_lse);
  rapt::Gradients spoilt = spoilt_like(expected);
  GradientOutputs outputs = outputs_of(spoilt);
  for (const auto& [name, tensor, output] : kGradientTensors)
    outputs.*output = guarded(outputs.*output);
  const size_t bytes = rapt::backward_workspace_bytes(query, key, value, c.options, g.request());
  const Guarded workspace(bytes, edge);
  scaled_dot_product_attention_backward(query, key, value, c.options, inputs, g.request(), outputs,
                                        {workspace.data(), bytes});
  for (const auto& [name, tensor, output] : kGradientTensors)
    if ((expected.*tensor).defined()) {
      EXPECT_TRUE(same_bits(outputs.*output, expected.*tensor)) << name;
    }
}

// Lengths around tiles and chunks; dimensions that are no whole vectors.
TEST(LinearGuardPages, NothingBesideTheTensors) {
  int nth = 0;
  for (const char* method : {"favor(20)", "favor(7,hyperbolic,exponent=-0.02)",
                             "favor(9,trigonometric)", "linear(elu)", "linear(taylor)"})
    for (const char* n : {"1", "17", "63", "64", "65", "130"})
      for (const char* mask : {"", ":mask=causal"}) {
        const char* const dtype = std::to_array({"f32", "f64", "bf16", "f16"})[nth++ % 4];
        const std::string line = std::string("h2q") + n + "k" + n + "d" + (nth % 3 ? "7" : "16") +
                                 "v" + (nth % 2 ? "5" : "33") + ":" + dtype + ":scale=0.2" + mask +
                                 ":method=" + method;
        SCOPED_TRACE(line);
        const Case c(parse_descriptor(line));
        for (const Edge edge : {Edge::front, Edge::back}) {
          expect_guarded_forward(c, edge);
          expect_guarded_backward(c, edge);
        }
      }
}

// A tensor that is wider than its rows: the gap behind each row holds a number.
struct WithGaps {
  static constexpr int64_t kGap = 3;
  Tensor wide;

  explicit WithGaps(const Tensor& rows) : wide(filled(rows.dtype(), wide_dims(rows), 7)) {}
  static Dims wide_dims(const Tensor& rows) {
    Dims dims = dims_of(rows);
    dims.back() += kGap;
    return dims;
  }
  TensorView rows() { return wide.view().slice(wide.rank() - 1, 0, wide.dim(-1) - kGap); }
  bool gaps_are_kept() const {
    const TensorView gaps = wide.view().slice(wide.rank() - 1, wide.dim(-1) - kGap, wide.dim(-1));
    const std::vector<double> values = check::values_of(gaps);
    return std::ranges::all_of(values, [](double x) { return x == 7; });
  }
};

TEST(LinearGuardPages, NothingBetweenRows) {
  for (const char* method : {"favor(20)", "linear(elu)"})
    for (const char* rest : {":f32", ":bf16:mask=causal", ":f64:mask=causal"}) {
      const std::string line = std::string("h2q130k130d7v5") + rest + ":scale=0.2:method=" + method;
      SCOPED_TRACE(line);
      const Case c(parse_descriptor(line));
      Tensor after = state_of(c);
      WithStates with(c);
      AttentionOptions options = c.options;
      options.method = with.with({}, after.view());
      AttentionResult expected = scaled_dot_product_attention(c.query, c.key, c.value, options);
      WithGaps output(expected.output), statistic(expected.statistic), last(after);
      options.method = with.with({}, last.rows());
      std::vector<std::byte> workspace(
          rapt::plan(c.query, c.key, c.value, options).workspace_bytes);
      scaled_dot_product_attention(
          c.query, c.key, c.value, options,
          {.state = {.output = output.rows(), .statistic = statistic.rows()}}, workspace);
      EXPECT_TRUE(same_bits(Tensor::copy_of(output.rows()), expected.output));
      EXPECT_TRUE(same_bits(Tensor::copy_of(statistic.rows()), expected.statistic));
      EXPECT_TRUE(same_bits(Tensor::copy_of(last.rows()), after));
      EXPECT_TRUE(output.gaps_are_kept() && statistic.gaps_are_kept() && last.gaps_are_kept());

      const GradientCase g(c);
      const rapt::Gradients gradients = scaled_dot_product_attention_backward(
          c.query, c.key, c.value, c.options, g.inputs(expected.state()), g.request());
      WithGaps d_query(gradients.d_query), d_key(gradients.d_key), d_value(gradients.d_value);
      GradientOutputs outputs;
      outputs.d_query = d_query.rows(), outputs.d_key = d_key.rows();
      outputs.d_value = d_value.rows();
      workspace.resize(
          rapt::backward_workspace_bytes(c.query, c.key, c.value, c.options, g.request()));
      scaled_dot_product_attention_backward(c.query, c.key, c.value, c.options,
                                            g.inputs(expected.state()), g.request(), outputs,
                                            workspace);
      EXPECT_TRUE(same_bits(Tensor::copy_of(d_query.rows()), gradients.d_query));
      EXPECT_TRUE(same_bits(Tensor::copy_of(d_key.rows()), gradients.d_key));
      EXPECT_TRUE(same_bits(Tensor::copy_of(d_value.rows()), gradients.d_value));
      EXPECT_TRUE(d_query.gaps_are_kept() && d_key.gaps_are_kept() && d_value.gaps_are_kept());
    }
}

}  // namespace
}  // namespace laws
