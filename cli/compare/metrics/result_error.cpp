#include "cli/compare/metrics/result_error.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/compare/metrics/tensor_rows.h"

namespace rapt::cli {
namespace {

double ratio_of_squares(double difference, double exact) {
  return difference == 0 && exact == 0 ? 0 : std::sqrt(difference / exact);
}

// The least error that a share of the rows, in ascending order, does not exceed.
double at_share(const std::vector<double>& errors, double share) {
  if (errors.empty()) return 0;
  const auto count = static_cast<double>(errors.size());
  const auto rank = static_cast<int64_t>(std::ceil(share * count - 1e-9));
  return errors[static_cast<size_t>(std::clamp<int64_t>(rank, 1, std::ssize(errors)) - 1)];
}

}  // namespace

ResultError result_error(const TensorView& result, const TensorView& exact) {
  TensorRows results(result), truth(exact);
  std::vector<double> errors;
  errors.reserve(static_cast<size_t>(truth.rows()));
  double all_differences = 0, all_exact = 0;
  for (int64_t i = 0; i < truth.rows(); ++i) {
    const double* const a = results.row(i);
    const double* const b = truth.row(i);
    double difference = 0, square = 0;
    for (int64_t d = 0; d < truth.columns(); ++d) {
      difference += (a[d] - b[d]) * (a[d] - b[d]);
      square += b[d] * b[d];
    }
    errors.push_back(ratio_of_squares(difference, square));
    all_differences += difference;
    all_exact += square;
  }
  std::sort(errors.begin(), errors.end(), [](double a, double b) {
    return std::isnan(a) ? false : std::isnan(b) ? true : a < b;
  });
  return {
      ratio_of_squares(all_differences, all_exact),
      {at_share(errors, 0.5), at_share(errors, 0.9), at_share(errors, 0.99), at_share(errors, 1)}};
}

int64_t SeedSpread::bytes_of(Shape shape) {
  return element_count(shape) * static_cast<int64_t>(sizeof(float));
}

void SeedSpread::add(const TensorView& result, const TensorView& exact) {
  TensorRows results(result), truth(exact);
  sum_.resize(static_cast<size_t>(exact.count()), 0);
  exact_square_ = 0;
  for (int64_t i = 0; i < truth.rows(); ++i) {
    const double* const a = results.row(i);
    const double* const b = truth.row(i);
    float* const sum = sum_.data() + i * truth.columns();
    for (int64_t d = 0; d < truth.columns(); ++d) {
      const double difference = a[d] - b[d];
      sum[d] += static_cast<float>(difference);
      squares_ += difference * difference;
      exact_square_ += b[d] * b[d];
    }
  }
  ++seeds_;
}

double SeedSpread::bias() const {
  double square = 0;
  for (const double x : sum_) square += x * x;
  const auto n = static_cast<double>(seeds_);
  return ratio_of_squares(square / (n * n), exact_square_);
}

double SeedSpread::spread() const {
  if (seeds_ < 2) return 0;
  double square = 0;
  for (const double x : sum_) square += x * x;
  const auto n = static_cast<double>(seeds_);
  // Rounding can make a difference of equal numbers negative. A NaN stays one.
  const double around = squares_ - square / n;
  return ratio_of_squares(around < 0 ? 0 : around / (n - 1), exact_square_);
}

}  // namespace rapt::cli
