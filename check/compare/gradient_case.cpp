#include "check/compare/gradient_case.h"

#include <algorithm>

#include "check/compare/set_elements.h"

namespace check {
namespace {

// Sets the rows of a tensor [rows, width] that the sample lacks to 0. `head_of` and `index_of` map
// a row to its query.
template <class HeadOf, class IndexOf>
void clear_others(Tensor& t, const Sample& sample, int64_t rows, const HeadOf& head_of,
                  const IndexOf& index_of) {
  if (!sample.heads && !sample.rows) return;
  const auto has = [](const std::optional<std::vector<int64_t>>& chosen, int64_t value) {
    return !chosen || std::ranges::binary_search(*chosen, value);
  };
  const int64_t width = rows == 0 ? 0 : t.view().count() / rows;
  const auto row_bytes = static_cast<size_t>(width * rapt::size_of(t.dtype()));
  auto* bytes = static_cast<std::byte*>(t.view().data);
  for (int64_t r = 0; r < rows; ++r)
    if (!has(sample.heads, head_of(r)) || !has(sample.rows, index_of(r)))
      std::fill_n(bytes + static_cast<size_t>(r) * row_bytes, row_bytes, std::byte{0});
}

}  // namespace

GradientCase::GradientCase(const Case& of, const Sample& rows) : c(of), sample(rows) {
  const Descriptor& d = c.descriptor;
  const DType statistic = d.dtype == DType::f64 ? DType::f64 : DType::f32;
  Random random(d.seed + 2);
  const auto clear = [&](Tensor& t) {
    clear_others(
        t, sample, d.heads() * d.q_len, [&](int64_t r) { return r / d.q_len; },
        [&](int64_t r) { return r % d.q_len; });
  };
  if (d.backward.d_lse) {
    d_lse = random_normal(random, statistic, dims_of(InputTensor::d_lse, d));
    set_elements(d, InputTensor::d_lse, d_lse);
    clear(d_lse);
  }
  d_output =
      random_normal(random, d.output_dtype.value_or(d.dtype), dims_of(InputTensor::d_output, d));
  set_elements(d, InputTensor::d_output, d_output);
  clear(d_output);
  strided_d_output_ = Strided(d_output, d.query.layout);
  if (!d.captures.weights || (c.method && !c.method->scope().d_weights)) return;
  const WeightsWanted& w = *d.captures.weights;
  const Dims dims = dims_of(InputTensor::d_weights, d);
  const int64_t count = dims[dims.size() - 2];
  const int64_t heads = w.heads.empty() ? d.heads() : dims.front();
  d_weights = random_normal(random, statistic, dims);
  set_elements(d, InputTensor::d_weights, d_weights);
  clear_others(
      d_weights, sample, heads * count,
      [&](int64_t r) { return w.heads.empty() ? r / count : w.heads[size_t(r / count)]; },
      [&](int64_t r) { return w.rows.empty() ? w.begin + r % count : w.rows[size_t(r % count)]; });
}

Sample gradient_sample_of(const Descriptor& descriptor) {
  Descriptor without_captures = descriptor;  // which need whole heads, or memory
  without_captures.captures = {};
  return sample_of(without_captures, kMostWork / 32);
}

rapt::BackwardInputs GradientCase::inputs(const rapt::AttentionState& state) const {
  rapt::BackwardInputs in;
  in.state = state;
  in.d_output = strided_d_output_;
  if (d_lse.defined()) in.d_statistic = d_lse;
  if (d_weights.defined()) in.d_weights = d_weights;
  return in;
}

rapt::BackwardRequest GradientCase::request() const {
  rapt::BackwardRequest request;
  const rapt::MethodScope* const scope = c.method ? &c.method->scope() : nullptr;
  request.bias = c.descriptor.has_bias && (!scope || scope->d_bias);
  request.scale = !scope || scope->d_scale;
  request.normalizer_parameters = has_gradient(c.descriptor.normalizer) && !scope;
  request.score_parameters =
      count_parameters_of(c.descriptor.scores) > 0 && (!scope || scope->d_score_parameters);
  request.relative = c.descriptor.relative.any() && (!scope || scope->d_relative);
  if (c.descriptor.backward.f32) request.dtype = DType::f32;
  if (c.descriptor.backward.two_passes) request.passes = rapt::BackwardPasses::two;
  return request;
}

Incoming GradientCase::for_reference() const {
  Incoming in;
  in.d_output = d_output;
  if (d_lse.defined()) in.d_lse = d_lse;
  if (d_weights.defined()) {
    in.d_weights = d_weights;
    in.weights = *c.descriptor.captures.weights;
  }
  if (c.descriptor.backward.f32) in.gradient_dtype = DType::f32;
  return in;
}

}  // namespace check
