// Gated output: the output of attention times a learned gate, which depends on the query.
//
//   gated = output o sigmoid(Z),   Z = X W,   X [n, m] the layer's input, W [m, heads d] learned
//
// (Qiu et al. 2025, arXiv:2505.06708, the gate after attention, a number per element; one per head
// is the same with W [m, heads].) Two lines after the call; backward, two before it:
//
//   d_output = d_gated o g,   dZ = d_gated o output o g (1 - g),   dW = X^T dZ,   g = sigmoid(Z)
//
// The backward pass needs the output as the call returned it, so the gate must not overwrite it.
// The exit status is 1 unless dW agrees with the change of the loss, here sum(gated o direction),
// when one number of W changes.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>

#include "rapt/rapt.h"

namespace {

constexpr size_t kHeads = 2, kLength = 100, kDim = 8, kInputs = 5, kRow = kHeads * kDim;

rapt::Tensor waves(size_t rows, size_t columns, double step) {
  rapt::Tensor numbers(rapt::DType::f64,
                       {static_cast<int64_t>(rows), static_cast<int64_t>(columns)});
  double angle = 0;
  for (double& number : numbers.values<double>()) number = std::sin(angle += step);
  return numbers;
}

// Views rows [n, heads d] as [heads, n, d], the shape for attention.
rapt::TensorView heads(rapt::Tensor& rows) {
  return rapt::TensorView(rows.values<double>().data(), {kLength, kHeads, kDim}).transposed(0, 1);
}

rapt::Tensor gates(const rapt::Tensor& x, const rapt::Tensor& w) {  // [n, heads d]
  rapt::Tensor g(rapt::DType::f64, {kLength, kRow});
  for (size_t i = 0; i < kLength; ++i)
    for (size_t e = 0; e < kRow; ++e) {
      double z = 0;
      for (size_t m = 0; m < kInputs; ++m)
        z += x.values<double>()[i * kInputs + m] * w.values<double>()[m * kRow + e];
      g.values<double>()[i * kRow + e] = 1 / (1 + std::exp(-z));
    }
  return g;
}

}  // namespace

int main() try {
  rapt::Tensor query = waves(kLength, kRow, 0.7), key = waves(kLength, kRow, 1.3);
  rapt::Tensor value = waves(kLength, kRow, 2.9);
  const rapt::Tensor x = waves(kLength, kInputs, 0.4), direction = waves(kLength, kRow, 0.1);
  rapt::Tensor w = waves(kInputs, kRow, 1.9);

  const rapt::Causal causal;
  const rapt::AttentionOptions options{.masks = {&causal}};
  rapt::AttentionResult forward =
      rapt::scaled_dot_product_attention(heads(query), heads(key), heads(value), options);
  // An element of the output [kHeads, kLength, kDim] by row i of X and column e of W.
  const auto output_at = [&](size_t i, size_t e) {
    return forward.output.values<double>()[(e / kDim * kLength + i) * kDim + e % kDim];
  };
  const auto loss = [&] {
    const rapt::Tensor g = gates(x, w);
    double sum = 0;
    for (size_t i = 0; i < kLength; ++i)
      for (size_t e = 0; e < kRow; ++e)
        sum += output_at(i, e) * g.values<double>()[i * kRow + e] *
               direction.values<double>()[i * kRow + e];
    return sum;
  };

  const rapt::Tensor g = gates(x, w);
  rapt::Tensor d_output(rapt::DType::f64, {kLength, kRow});
  double d_w[kInputs][kRow] = {};
  for (size_t i = 0; i < kLength; ++i)
    for (size_t e = 0; e < kRow; ++e) {
      const double d_gated = direction.values<double>()[i * kRow + e];
      const double gate = g.values<double>()[i * kRow + e];
      d_output.values<double>()[i * kRow + e] = d_gated * gate;
      for (size_t m = 0; m < kInputs; ++m)
        d_w[m][e] +=
            x.values<double>()[i * kInputs + m] * d_gated * output_at(i, e) * gate * (1 - gate);
    }
  const rapt::Gradients gradients = rapt::scaled_dot_product_attention_backward(
      heads(query), heads(key), heads(value), options,
      {.state = forward.state(), .d_output = heads(d_output)});

  constexpr size_t kInput = 3, kElement = 10;
  double& changed = w.values<double>()[kInput * kRow + kElement];
  const double was = changed, step = 1e-5;
  changed = was + step;
  const double up = loss();
  changed = was - step;
  const double by_step = (up - loss()) / (2 * step);
  changed = was;

  double open = 0;
  for (const double gate : g.values<double>()) open += gate / (kLength * kRow);
  std::printf("gates are open by %.3f on average, loss %.6f\n", open, loss());
  std::printf("dW[%zu][%zu] %.6f, by a step %.6f; last of d_query %.6f\n", kInput, kElement,
              d_w[kInput][kElement], by_step, gradients.d_query.values<double>().back());
  // The error of the difference quotient: the step squared times a third derivative, plus rounding
  // over the step.
  return std::fabs(d_w[kInput][kElement] - by_step) < 1e-7 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
