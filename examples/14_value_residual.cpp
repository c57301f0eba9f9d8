// Value residual: a layer's values are mixed with those of the first layer before attention.
//
//   mixed = own_share value + first_share first_value,   output = attention(query, key, mixed)
//
// (Zhou et al. 2024, arXiv:2410.17897, ResFormer; shares of a half each, or learned.) One line
// before the call; backward, d_value of the call is the gradient of the mixture:
//
//   d_value = own_share d_mixed,   d_first_value = first_share d_mixed, added up over the layers,
//   d_first_share = sum(d_mixed o first_value),   d_own_share = sum(d_mixed o value)
//
// The exit status is 1 unless d_first_share agrees with the change of the loss, here sum(output o
// direction), when first_share changes.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kHeads = 2, kLength = 100, kDim = 8;

rapt::Tensor waves(double step) {
  rapt::Tensor numbers(rapt::DType::f64, {kHeads, kLength, kDim});
  double angle = 0;
  for (double& number : numbers.values<double>()) number = std::sin(angle += step);
  return numbers;
}

double dot(const rapt::Tensor& a, const rapt::Tensor& b) {
  double sum = 0;
  for (size_t e = 0; e < a.values<double>().size(); ++e)
    sum += a.values<double>()[e] * b.values<double>()[e];
  return sum;
}

}  // namespace

int main() try {
  const rapt::Tensor query = waves(0.7), key = waves(1.3), value = waves(2.9);
  const rapt::Tensor first_value = waves(0.3), direction = waves(0.1);
  const double own_share = 0.5, first_share = 0.5;
  const rapt::Causal causal;
  const rapt::AttentionOptions options{.masks = {&causal}};

  const auto mixture = [&](double first) {
    rapt::Tensor mixed(rapt::DType::f64, {kHeads, kLength, kDim});
    for (size_t e = 0; e < mixed.values<double>().size(); ++e)
      mixed.values<double>()[e] =
          own_share * value.values<double>()[e] + first * first_value.values<double>()[e];
    return mixed;
  };
  const rapt::Tensor mixed = mixture(first_share);
  rapt::AttentionResult forward = rapt::scaled_dot_product_attention(query, key, mixed, options);
  const rapt::Gradients gradients = rapt::scaled_dot_product_attention_backward(
      query, key, mixed, options, {.state = forward.state(), .d_output = direction});
  const rapt::Tensor& d_mixed = gradients.d_value;
  const double d_first_share = dot(d_mixed, first_value), d_own_share = dot(d_mixed, value);

  // Weights do not depend on values, so the loss is linear in the shares, and any step will do.
  const rapt::Tensor more = mixture(first_share + 1);
  const double by_step =
      dot(rapt::scaled_dot_product_attention(query, key, more, options).output, direction) -
      dot(forward.output, direction);
  std::printf("d_first_share %.9f, by a step %.9f\n", d_first_share, by_step);
  std::printf("loss %.9f, by the shares and their gradients %.9f\n", dot(forward.output, direction),
              own_share * d_own_share + first_share * d_first_share);
  // The rounding error of sums of 1,600 products of at most 1 in f64.
  return std::fabs(d_first_share - by_step) < 1e-11 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
