#include "reference/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reference {
namespace {

template <class Real>
std::vector<long double> widened(const std::vector<Real>& values) {
  return {values.begin(), values.end()};
}

// Truth: the type that rounds, Wide: the type of the reference.
template <class Real, class Wide>
Expectations expect(const Problem& problem) {
  const Result<Wide> truth = attention<Wide>(problem);
  const Result<Real> plain = attention<Real>(problem);
  constexpr double kEpsilon = std::numeric_limits<Real>::epsilon();
  constexpr double kTiny = std::numeric_limits<Real>::min();

  Expectations e;
  e.output = {widened(truth.output), widened(plain.output), {}};
  e.lse = {widened(truth.lse), widened(plain.lse), {}};
  e.weights = {widened(truth.weights), widened(plain.weights), {}};
  const auto rows = static_cast<int64_t>(truth.lse.size());
  for (int64_t row = 0; row < rows; ++row) {
    const auto dot = static_cast<double>(truth.dot_terms[static_cast<size_t>(row)]);
    const auto bias = static_cast<double>(truth.bias_terms[static_cast<size_t>(row)]);
    const double terms = dot * (1 + std::sqrt(static_cast<double>(truth.head_dim)) / 4) + bias;
    const auto lse = static_cast<double>(truth.lse[static_cast<size_t>(row)]);
    const double relative = (2 + terms) * kEpsilon;
    e.lse.floor.push_back((2 * std::max(1.0, std::abs(lse)) + terms) * kEpsilon);
    const int64_t head = row / truth.q_len;
    for (int64_t c = 0; c < truth.value_dim; ++c) {
      const auto sum =
          static_cast<double>(truth.value_sum[static_cast<size_t>(head * truth.value_dim + c)]);
      const auto output_terms =
          static_cast<double>(truth.output_terms[static_cast<size_t>(row * truth.value_dim + c)]);
      e.output.floor.push_back(relative * output_terms + kTiny * (1 + sum));
    }
    for (int64_t j = 0; j < truth.k_len; ++j)
      e.weights.floor.push_back(
          relative *
              static_cast<double>(truth.weights[static_cast<size_t>(row * truth.k_len + j)]) +
          kTiny);
  }
  return e;
}

// Only finite elements have an error that can be compared.
bool counts(const Expectation& e, size_t i) {
  return std::isfinite(e.truth[i]) && std::isfinite(e.plain[i]) && std::isfinite(e.floor[i]);
}

}  // namespace

Budget Expectation::budget() const {
  double max_plain = 0, max_floor = 0, sum_plain = 0, sum_floor = 0, count = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    if (!counts(*this, i)) continue;
    const auto error = static_cast<double>(std::abs(plain[i] - truth[i]));
    max_plain = std::max(max_plain, error);
    max_floor = std::max(max_floor, floor[i]);
    sum_plain += error * error;
    sum_floor += floor[i] * floor[i];
    ++count;
  }
  if (count == 0) return {};
  return {2 * max_plain + max_floor,
          2 * std::sqrt(sum_plain / count) + std::sqrt(sum_floor / count)};
}

testing::AssertionResult Expectation::met_by(std::span<const double> got, const char* what,
                                             double factor) const {
  if (got.size() != truth.size())
    return testing::AssertionFailure()
           << what << " has " << got.size() << " elements instead of " << truth.size();
  const Budget allowed = budget();
  double worst = 0, sum = 0, count = 0;
  size_t worst_at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool wrong_class =
        std::isfinite(truth[i])
            ? std::isfinite(plain[i]) && !std::isfinite(got[i])
            : std::isfinite(got[i]) || (std::isinf(truth[i]) && truth[i] < 0 && got[i] > 0);
    if (wrong_class)
      return testing::AssertionFailure() << what << "[" << i << "] is " << got[i] << " instead of "
                                         << truth[i] << " (plain loop: " << plain[i] << ")";
    if (!counts(*this, i)) continue;
    const auto error = static_cast<double>(std::abs(static_cast<long double>(got[i]) - truth[i]));
    if (error > worst) {
      worst = error;
      worst_at = i;
    }
    sum += error * error;
    ++count;
  }
  const double rms = count == 0 ? 0 : std::sqrt(sum / count);
  if (worst <= factor * allowed.max && rms <= factor * allowed.rms)
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << what << ": largest error " << worst << " of allowed " << factor * allowed.max
         << ", rms " << rms << " of " << factor * allowed.rms << "; worst at " << worst_at << " of "
         << got.size() << ": " << got[worst_at] << " instead of " << truth[worst_at]
         << " (plain loop: " << plain[worst_at] << ")";
}

Expectations expectations(const Problem& problem) {
  return problem.query.dtype == rapt::DType::f64 ? expect<double, long double>(problem)
                                                 : expect<float, double>(problem);
}

std::vector<double> values_of(const rapt::TensorView& view) {
  std::vector<double> values;
  std::vector<int64_t> index(static_cast<size_t>(view.rank), 0);
  for (const int64_t length : view.dims())
    if (length == 0) return values;
  for (;;) {
    values.push_back(element(view, index));
    size_t dim = index.size();
    while (dim > 0 && ++index[dim - 1] == view.shape[dim - 1]) index[--dim] = 0;
    if (dim == 0) return values;
  }
}

}  // namespace reference
