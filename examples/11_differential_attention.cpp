// Differential attention: one softmax minus another, so that weights common to both cancel.
//
//   output_h = (P_2h - lambda P_2h+1) value_h,   P_g = softmax(query_g key_g^T / sqrt(d))
//   lambda   = exp(a . b) - exp(c . e) + lambda_init, learned vectors a, b, c, e
//
// (Ye et al. 2024, arXiv:2410.05258, equations 1 and 2; the norm per head that follows there is not
// part of attention.) There are two heads of queries and keys for each head of values, which is
// twice as wide. This is grouped heads for the values alone, so one call computes both softmaxes:
//
//   parts    = attention(query, key, value)      [2 heads, n, 2d]
//   output_h = parts_2h - lambda parts_2h+1
//   d_parts  = (d_output, -lambda d_output),     d_lambda = -sum(d_output o parts_2h+1)
//
// One backward call with d_parts computes the other gradients. The exit status is 1 unless d_lambda
// agrees with the change of the loss, here sum(output o direction), when lambda changes.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kHeads = 2, kLength = 100, kDim = 8;
constexpr size_t kPart = kLength * 2 * kDim;  // numbers of one head of parts, and of output

rapt::Tensor waves(int64_t heads, int64_t dim, double step) {
  rapt::Tensor numbers(rapt::DType::f64, {heads, kLength, dim});
  double angle = 0;
  for (double& number : numbers.values<double>()) number = 2 * std::sin(angle += step);
  return numbers;
}

// [kHeads, kLength, 2 kDim] from [2 kHeads, kLength, 2 kDim].
rapt::Tensor difference(const rapt::Tensor& parts, double lambda) {
  rapt::Tensor output(rapt::DType::f64, {kHeads, kLength, 2 * kDim});
  const auto from = parts.values<double>();
  const auto to = output.values<double>();
  for (size_t h = 0; h < kHeads; ++h)
    for (size_t e = 0; e < kPart; ++e)
      to[h * kPart + e] = from[2 * h * kPart + e] - lambda * from[(2 * h + 1) * kPart + e];
  return output;
}

double dot(const rapt::Tensor& a, const rapt::Tensor& b) {
  double sum = 0;
  for (size_t e = 0; e < kHeads * kPart; ++e) sum += a.values<double>()[e] * b.values<double>()[e];
  return sum;
}

}  // namespace

int main() try {
  const rapt::Tensor query = waves(2 * kHeads, kDim, 0.7), key = waves(2 * kHeads, kDim, 1.3);
  const rapt::Tensor value = waves(kHeads, 2 * kDim, 2.9);
  const rapt::Tensor d_output = waves(kHeads, 2 * kDim, 0.1);  // the direction
  const double lambda = 0.8 - 0.6 * std::exp(-0.3 * 3);        // lambda_init of the fourth layer

  const rapt::Causal causal;
  const rapt::AttentionOptions options{.masks = {&causal}};
  rapt::AttentionResult parts = rapt::scaled_dot_product_attention(query, key, value, options);
  const double loss = dot(difference(parts.output, lambda), d_output);

  rapt::Tensor d_parts(rapt::DType::f64, {2 * kHeads, kLength, 2 * kDim});
  double d_lambda = 0;
  for (size_t h = 0; h < kHeads; ++h)
    for (size_t e = 0; e < kPart; ++e) {
      const double d = d_output.values<double>()[h * kPart + e];
      d_parts.values<double>()[2 * h * kPart + e] = d;
      d_parts.values<double>()[(2 * h + 1) * kPart + e] = -lambda * d;
      d_lambda -= d * parts.output.values<double>()[(2 * h + 1) * kPart + e];
    }
  const rapt::Gradients gradients = rapt::scaled_dot_product_attention_backward(
      query, key, value, options, {.state = parts.state(), .d_output = d_parts});

  // The loss is linear in lambda, so a step of any size gives the same derivative.
  const double by_step = dot(difference(parts.output, lambda + 1), d_output) - loss;
  std::printf("lambda %.4f, loss %.6f\n", lambda, loss);
  std::printf("d_lambda %.9f, by a step of lambda %.9f\n", d_lambda, by_step);
  std::printf("d_value has %lld heads, d_query %lld\n",
              static_cast<long long>(gradients.d_value.dim(0)),
              static_cast<long long>(gradients.d_query.dim(0)));
  // The rounding error of sums of 3,200 products of at most 4 in f64.
  return std::fabs(d_lambda - by_step) < 1e-10 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
