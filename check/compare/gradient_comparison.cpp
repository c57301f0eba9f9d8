#include "check/compare/gradient_comparison.h"

#include "check/tolerance/gradient_tolerance.h"

namespace check {

rapt::Gradients run_backward(const GradientCase& g, const rapt::Context& context) {
  const Case::Inputs in = g.c.laid_out();
  const rapt::AttentionOptions options = g.c.wanted_options();
  rapt::AttentionResult forward =
      rapt::scaled_dot_product_attention(in.query, in.key, in.value, options, context);
  return rapt::scaled_dot_product_attention_backward(
      in.query, in.key, in.value, options, g.inputs(forward.state()), g.request(), context);
}

Comparison compare(const GradientCase& g, const rapt::Gradients& got) {
  const Descriptor& d = g.c.descriptor;
  const GradientExpectations expected =
      gradient_expectations(g.c.for_reference(), g.for_reference(), g.sample);
  const rapt::BackwardRequest request = g.request();
  const DType stored = request.dtype.value_or(d.dtype);
  const DType summed = d.dtype == DType::f64 ? DType::f64 : DType::f32;
  Comparison comparison;
  const auto tensor = [&](const char* name, const Tensor& t, bool wanted, DType dtype,
                          rapt::Shape dims, const Expectation& expectation) {
    const std::string wrong = misdeclared(t, wanted, dtype, dims);
    if (!wrong.empty())
      comparison.tensors.push_back({name, {false, name + wrong, {}, {}}});
    else if (wanted)
      comparison.tensors.push_back({name, expectation.verdict(values_of(t), name)});
  };
  tensor("d_query", got.d_query, true, stored, g.c.query.dims(), expected.query);
  tensor("d_key", got.d_key, true, stored, g.c.key.dims(), expected.key);
  tensor("d_value", got.d_value, true, stored, g.c.value.dims(), expected.value);
  tensor("d_bias", got.d_bias, request.bias, summed, d.bias_dims, expected.bias);
  tensor("d_scale", got.d_scale, request.scale, DType::f64, {}, expected.scale);
  const Dims numbers = {count_parameters_of(d.scores)};
  tensor("d_score_parameters", got.d_score_parameters, request.score_parameters, DType::f64,
         numbers, expected.numbers);
  const Dims one = {1};
  tensor("d_normalizer_parameters", got.d_normalizer_parameters, request.normalizer_parameters,
         DType::f64, one, expected.normalizer);
  const struct {
    const char* name;
    const Tensor& of_table;
  } relative[RelativeSpec::kParts] = {{"d_key_rows", got.d_key_rows},
                                      {"d_query_rows", got.d_query_rows},
                                      {"d_value_rows", got.d_value_rows},
                                      {"d_content_bias", got.d_content_bias},
                                      {"d_position_bias", got.d_position_bias}};
  for (size_t part = 0; part < RelativeSpec::kParts; ++part)
    tensor(relative[part].name, relative[part].of_table,
           request.relative && d.relative.tables[part].there, summed,
           d.relative.dims(part, d.head_dim, d.value_dim), expected.relative[part]);
  return comparison;
}

}  // namespace check
