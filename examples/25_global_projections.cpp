// Longformer: the first tokens are global and attend to all keys by projections of their own, the
// other rows to a window and to the global tokens.
//
//   output_i = softmax(query_i key^T / sqrt(d) over window and global keys) value     i >= kGlobal
//   output_i = softmax(global_query_i global_key^T / sqrt(d)) global_value            i < kGlobal
//
// (Beltagy et al. 2020, arXiv:2004.05150, section 3.1.) Two calls, each of which computes its rows
// alone. The exit status is 1 unless a number of d_key, and one of the gradient of global_key,
// agree with the change of the loss, here sum(output o direction).
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kHeads = 2, kLength = 200, kDim = 8, kGlobal = 4, kReach = 16;

rapt::Tensor waves(int64_t rows, double step) {  // [kHeads, rows, kDim]
  rapt::Tensor numbers(rapt::DType::f64, {kHeads, rows, kDim});
  double angle = 0;
  for (double& number : numbers.values<double>()) number = std::sin(angle += step);
  return numbers;
}

double sum_of_products(const rapt::Tensor& rows, const rapt::TensorView& direction) {
  const rapt::Tensor same = rapt::Tensor::copy_of(direction);
  double sum = 0;
  for (size_t i = 0; i < rows.values<double>().size(); ++i)
    sum += rows.values<double>()[i] * same.values<double>()[i];
  return sum;
}

double by_step(double& number, const std::function<double()>& loss) {
  const double was = number, step = 1e-5;
  number = was + step;
  const double up = loss();
  number = was - step;
  const double down = loss();
  number = was;
  return (up - down) / (2 * step);
}

}  // namespace

int main() try {
  const rapt::Tensor query = waves(kLength, 0.7), value = waves(kLength, 2.9);
  rapt::Tensor key = waves(kLength, 1.3), global_key = waves(kLength, 1.7);
  const rapt::Tensor global_query = waves(kGlobal, 0.9), global_value = waves(kLength, 2.3);
  const rapt::Tensor direction = waves(kLength, 0.1);
  const rapt::TensorView local_query = query.view().slice(1, kGlobal, kLength);
  const rapt::TensorView local_direction = direction.view().slice(1, kGlobal, kLength);
  const rapt::TensorView global_direction = direction.view().slice(1, 0, kGlobal);

  // Aligned bottom-right, the first local query stands at key kGlobal.
  const rapt::Window window(kReach, kReach, rapt::Anchor::bottom_right);
  const rapt::Prefix global_keys(kGlobal);
  const rapt::Or either{&window, &global_keys};
  const rapt::AttentionOptions local_options{.masks = {&either}}, global_options;
  const auto local_rows = [&] {
    return rapt::scaled_dot_product_attention(local_query, key, value, local_options);
  };
  const auto global_rows = [&] {
    return rapt::scaled_dot_product_attention(global_query, global_key, global_value,
                                              global_options);
  };
  const auto loss = [&] {
    return sum_of_products(local_rows().output, local_direction) +
           sum_of_products(global_rows().output, global_direction);
  };

  rapt::AttentionResult local = local_rows(), global = global_rows();
  const rapt::Gradients of_local = rapt::scaled_dot_product_attention_backward(
      local_query, key, value, local_options,
      {.state = local.state(), .d_output = local_direction});
  const rapt::Gradients of_global = rapt::scaled_dot_product_attention_backward(
      global_query, global_key, global_value, global_options,
      {.state = global.state(), .d_output = global_direction});

  constexpr size_t kElement = 2 * kDim + 3;  // of key 2, a global one
  const double d_key = of_local.d_key.values<double>()[kElement];
  const double d_global_key = of_global.d_key.values<double>()[kElement];
  const double key_step = by_step(key.values<double>()[kElement], loss);
  const double global_step = by_step(global_key.values<double>()[kElement], loss);
  std::printf("%lld of %lld pairs are computed for the local rows; loss %.6f\n",
              static_cast<long long>(
                  rapt::plan(local_query, key, value, local_options).allowed_scores / kHeads),
              static_cast<long long>(kLength * (kLength - kGlobal)), loss());
  std::printf("d_key %.6f, by a step %.6f; global d_key %.6f, by a step %.6f\n", d_key, key_step,
              d_global_key, global_step);
  // The error of the difference quotient: the step squared times a third derivative, plus rounding
  // over the step.
  return std::fabs(d_key - key_step) < 1e-7 && std::fabs(d_global_key - global_step) < 1e-7 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
