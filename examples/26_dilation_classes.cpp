// A window of every kStep-th key without a masked pair: positions i of the same i mod kStep are a
// sequence of their own, a strided view of the rows, in which the pattern is a plain window. The
// first kGlobal keys, to which all queries attend, are a second call; merge() joins both.
//
//   query i attends to keys i + k kStep, |k| <= kReach, and to keys 0 to kGlobal - 1
//
// (Beltagy et al. 2020, arXiv:2004.05150, section 3.1.) The exit status is 1 unless outputs and
// d_key are those of one call with the masks dilated and prefix.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kHeads = 2, kLength = 4096, kDim = 8, kStep = 8, kReach = 128, kGlobal = 6;

rapt::Tensor waves(double step) {
  rapt::Tensor numbers(rapt::DType::f64, {kHeads, kLength, kDim});
  double angle = 0;
  for (double& number : numbers.values<double>()) number = std::sin(angle += step);
  return numbers;
}

// Views rows [kHeads, kLength, kDim] as [kHeads, kStep, kLength / kStep, kDim].
rapt::TensorView by_class(rapt::Tensor& rows) {
  return rapt::TensorView(rows.values<double>().data(), {kHeads, kLength / kStep, kStep, kDim})
      .transposed(1, 2);
}

double furthest(const rapt::Tensor& a, const rapt::Tensor& b) {
  double most = 0;
  for (size_t i = 0; i < a.values<double>().size(); ++i)
    most = std::max(most, std::fabs(a.values<double>()[i] - b.values<double>()[i]));
  return most;
}

}  // namespace

int main() try {
  rapt::Tensor query = waves(0.7), key = waves(1.3), value = waves(2.9), d_output = waves(0.1);
  const rapt::TensorView first_keys = key.view().slice(1, 0, kGlobal);
  const rapt::TensorView first_values = value.view().slice(1, 0, kGlobal);

  // The parts have no key in common: classes leave out the global keys that they have.
  int64_t counts[kStep];
  for (int64_t r = 0; r < kStep; ++r) counts[r] = (kGlobal - r + kStep - 1) / kStep;
  const rapt::TensorView counts_of_classes(counts, {1, kStep});
  const rapt::Window window(kReach, kReach);
  const rapt::Prefix global_keys(counts_of_classes);
  const rapt::Not other_keys(&global_keys);
  const rapt::AttentionOptions of_classes{.masks = {&window, &other_keys}}, of_columns;

  rapt::AttentionResult classes = rapt::scaled_dot_product_attention(by_class(query), by_class(key),
                                                                     by_class(value), of_classes);
  rapt::AttentionResult merged =
      rapt::scaled_dot_product_attention(query, first_keys, first_values, of_columns);
  const rapt::AttentionState merged_by_class{
      by_class(merged.output),
      rapt::TensorView(merged.statistic.values<double>().data(), {kHeads, kLength / kStep, kStep})
          .transposed(1, 2)};
  const rapt::Softmax softmax;
  rapt::merge(merged_by_class, classes.state(), softmax);

  // Both parts get the merged output and lse, so their weights are those over all keys.
  rapt::Gradients gradients = rapt::scaled_dot_product_attention_backward(
      by_class(query), by_class(key), by_class(value), of_classes,
      {.state = merged_by_class, .d_output = by_class(d_output)});
  const rapt::Gradients of_first = rapt::scaled_dot_product_attention_backward(
      query, first_keys, first_values, of_columns, {.state = merged.state(), .d_output = d_output});
  rapt::Tensor d_key = rapt::Tensor::copy_of(gradients.d_key.view().transposed(1, 2));
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t i = 0; i < kGlobal * kDim; ++i)
      d_key.values<double>()[static_cast<size_t>(h * kLength * kDim + i)] +=
          of_first.d_key.values<double>()[static_cast<size_t>(h * kGlobal * kDim + i)];

  const rapt::Dilated dilated(kReach, kStep);
  const rapt::Prefix prefix(kGlobal);
  const rapt::Or either{&dilated, &prefix};
  const rapt::AttentionOptions options{.masks = {&either}};
  rapt::AttentionResult one = rapt::scaled_dot_product_attention(query, key, value, options);
  const rapt::Gradients of_one = rapt::scaled_dot_product_attention_backward(
      query, key, value, options, {.state = one.state(), .d_output = d_output});

  const auto computed = [](const rapt::Plan& plan) {
    return static_cast<long long>(plan.tiles_computed + plan.tiles_partial);
  };
  std::printf("tiles: %lld of classes and %lld of columns, %lld of one call with masks\n",
              computed(rapt::plan(by_class(query), by_class(key), by_class(value), of_classes)),
              computed(rapt::plan(query, first_keys, first_values, of_columns)),
              computed(rapt::plan(query, key, value, options)));
  const double output_error = furthest(merged.output, one.output);
  const double gradient_error = furthest(d_key, of_one.d_key);
  std::printf("furthest output %.1e, d_key %.1e\n", output_error, gradient_error);
  // Sums of up to 263 numbers of about 1 / 263 in another order: some units of 2^-53.
  return output_error < 1e-13 && gradient_error < 1e-13 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
