// The backward pass touches no byte beside its tensors: all of them, and the workspace, lie flush
// against a page that cannot be touched, first on one side, then on the other.
#include <gtest/gtest.h>

#include <memory>

#include "gradients/gradient_problems.h"
#include "hostile/guarded.h"

namespace laws {
namespace {

// Calls with guarded memory; compares with the simple call.
void expect_guarded(const Case& c, const GradientCase& g, Edge edge) {
  AttentionOptions options = c.options;
  options.weights = c.wanted_options().weights;
  AttentionResult forward = scaled_dot_product_attention(c.query, c.key, c.value, options);
  const rapt::Gradients expected = scaled_dot_product_attention_backward(
      c.query, c.key, c.value, options, g.inputs(forward.state()), g.request());

  std::vector<std::unique_ptr<GuardedTensor>> tensors;
  const auto guarded = [&](const TensorView& t) -> TensorView {
    if (!t.defined()) return {};
    tensors.push_back(std::make_unique<GuardedTensor>(t, edge));
    return *tensors.back();
  };
  std::vector<std::unique_ptr<rapt::Mask>> masks;
  std::vector<const rapt::Mask*> pointers;
  for (MaskSpec spec : c.descriptor.masks) {
    for (TensorView& tensor : spec.tensors) tensor = guarded(tensor);
    masks.push_back(spec.make());
    pointers.push_back(masks.back().get());
  }
  options.masks = pointers;
  const TensorView query = guarded(c.query), key = guarded(c.key), value = guarded(c.value);
  options.bias = guarded(options.bias);
  rapt::RelativePositions& relative = options.relative;
  for (TensorView* t : {&relative.key_rows, &relative.query_rows, &relative.value_rows,
                        &relative.content_bias, &relative.position_bias})
    *t = guarded(*t);
  BackwardInputs inputs;
  inputs.state.output = guarded(forward.output);
  inputs.state.statistic = guarded(forward.statistic);
  inputs.d_output = guarded(g.d_output);
  inputs.d_statistic = guarded(g.d_lse);
  inputs.d_weights = guarded(g.d_weights);
  rapt::Gradients spoilt = spoilt_like(expected);
  GradientOutputs outputs = outputs_of(spoilt);
  for (const auto& [name, tensor, output] : kGradientTensors)
    outputs.*output = guarded(outputs.*output);
  const size_t bytes = rapt::backward_workspace_bytes(query, key, value, options, g.request());
  const Guarded workspace(bytes, edge);
  scaled_dot_product_attention_backward(query, key, value, options, inputs, g.request(), outputs,
                                        {workspace.data(), bytes});
  for (const auto& [name, tensor, output] : kGradientTensors)
    if ((expected.*tensor).defined()) {
      EXPECT_TRUE(same_bits(outputs.*output, expected.*tensor)) << name;
    }
}

void expect_guarded(const std::string& line) {
  SCOPED_TRACE(line);
  const Case c(parse_descriptor(line));
  const GradientCase g(c);
  expect_guarded(c, g, Edge::front);
  expect_guarded(c, g, Edge::back);
}

TEST(GradientGuardPages, RandomProblems) {
  const auto without_compounds = [](Descriptor& d) {
    return std::ranges::all_of(d.masks, [](const MaskSpec& m) { return m.parts.empty(); });
  };
  for_gradient_problems(250, without_compounds, [](const Case& c, const GradientCase& g, Random&) {
    expect_guarded(c, g, Edge::front);
    expect_guarded(c, g, Edge::back);
  });
}

// PyTorch #156022: cpu_flash_attention_backward of bf16 wrote out of bounds at 1030 queries, 17
// keys, 3 heads of 8.
TEST(GradientGuardPages, reg_bwd_bf16_oob) {
  for (const char* dtype : {"bf16", "f16", "f32", "f64"})
    for (const char* rest : {"", ":backward=two", ":mask=causal:dropout=0.2,3"})
      expect_guarded(std::string("h3q1030k17d8:") + dtype + rest);
}

TEST(GradientGuardPages, RelativePositions) {
  for (int64_t d = 1; d <= 20; d += 3)
    for (const int64_t n : {1, 7, 33, 65})
      for (const char* relative : {"keys+values(9)", "keys+queries(6,center=1)",
                                   "keys+content+position(40,center=39,bottom-right)"})
        expect_guarded("h2q" + std::to_string(n) + "k" + std::to_string(70 - n) + "d" +
                       std::to_string(d) + "v" + std::to_string(21 - d) + ":relative=" + relative +
                       (n % 2 == 1 ? "" : ":bf16"));
}

TEST(GradientGuardPages, ChangedRows) {
  for (int64_t d = 2; d <= 40; d += 6)
    for (const int64_t n : {1, 17, 33, 65})
      for (const char* rows : {"cosine", "rotary(dims=2,interleaved)", "cosine+rotary(query=3)"})
        expect_guarded("h2q" + std::to_string(n) + "k" + std::to_string(70 - n) + "d" +
                       std::to_string(d) + ":rows=" + rows + (n % 2 == 1 ? "" : ":bf16"));
}

TEST(GradientGuardPages, EveryRemainder) {
  for (int64_t d = 1; d <= 40; d += 3)
    for (const int64_t n : {1, 3, 16, 17, 33, 65})
      expect_guarded("h2q" + std::to_string(n) + "k" + std::to_string(34 - d % 17) + "d" +
                     std::to_string(d) + "v" + std::to_string(41 - d) +
                     (n % 2 == 1 ? ":bias:dropout=0.5,1" : ":bf16:bias"));
}

}  // namespace
}  // namespace laws
