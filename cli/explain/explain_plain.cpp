// Plain steps, and a bound of the library's rounding errors against them.
#include "cli/explain/explain_plain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check/problem/parse_normalizer.h"
#include "cli/files/conversion.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"

namespace rapt::cli {

Tensor f64_copy(const TensorView& tensor) { return converted(tensor, DType::f64); }

Tensor rounded(const Tensor& matrix, DType dtype) { return f64_copy(converted(matrix, dtype)); }

Tensor product(const Tensor& a, const Tensor& b) {
  Tensor c(DType::f64, {a.dim(0), b.dim(1)});
  for (int64_t i = 0; i < c.dim(0); ++i) {
    for (int64_t j = 0; j < c.dim(1); ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.dim(1); ++k) sum += at(a, i, k) * at(b, k, j);
      at(c, i, j) = sum;
    }
  }
  return c;
}

Tensor broadcast_bias(const Tensor& bias, int64_t q_len, int64_t k_len) {
  if (bias.rank() != 2)
    throw Failure(Exit::data, "the bias: expected a matrix, got " + type_text(bias));
  Tensor wide(DType::f64, {q_len, k_len});
  for (int64_t i = 0; i < q_len; ++i)
    for (int64_t j = 0; j < k_len; ++j)
      at(wide, i, j) = at(bias, bias.dim(0) == 1 ? 0 : i, bias.dim(1) == 1 ? 0 : j);
  return wide;
}

Tensor unit_rows(const Tensor& rows, double epsilon) {
  Tensor unit(DType::f64, {rows.dim(0), rows.dim(1)});
  for (int64_t i = 0; i < rows.dim(0); ++i) {
    double squares = 0;
    for (int64_t c = 0; c < rows.dim(1); ++c) squares += at(rows, i, c) * at(rows, i, c);
    const double length = std::max(std::sqrt(squares), epsilon);
    for (int64_t c = 0; c < rows.dim(1); ++c) at(unit, i, c) = at(rows, i, c) / length;
  }
  return unit;
}

double difference_of(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = element(a, i), y = element(b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double difference = std::abs(x - y);
    most = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                  : std::max(most, difference);
  }
  return most;
}

check::Normalizer reference_of(const NormalizerRef& normalizer, int64_t k_len) {
  return check::of_length(check::reference_of(normalizer), k_len);
}

PlainResult plain_result(const Tensor& scores, const Tensor& value, const Tensor& added,
                         const std::vector<uint8_t>& allowed, const check::Normalizer& normalizer,
                         const Off& off) {
  const int64_t q_len = scores.dim(0), k_len = scores.dim(1), value_dim = value.dim(1);
  PlainResult result{Tensor(DType::f64, {q_len, k_len}), Tensor(DType::f64, {q_len, value_dim})};
  std::fill_n(result.weights.values<double>().begin(), q_len * k_len, 0.0);
  std::fill_n(result.output.values<double>().begin(), q_len * value_dim, 0.0);
  std::vector<double> seen, errors(static_cast<size_t>(value_dim));
  std::vector<size_t> keys;
  for (int64_t i = 0; i < q_len; ++i) {
    const auto begin = static_cast<size_t>(i * k_len);
    keys.clear(), seen.clear();
    for (size_t j = 0; j < static_cast<size_t>(k_len); ++j) {
      if (!allowed[begin + j]) continue;
      keys.push_back(j);
      seen.push_back(scores.values<double>()[begin + j]);
    }
    const check::Weighed<double> row = std::visit(
        [&](const auto& n) { return n.weigh(std::span<const double>(seen)); }, normalizer);
    const check::Off of_row =
        check::off_of_row(normalizer, std::span<const double>(seen), row, off.score, off.epsilon);
    std::fill(errors.begin(), errors.end(), 0);
    for (size_t x = 0; x < keys.size(); ++x) {
      const double weight = row.powers[x] / row.divisor;
      result.weights.values<double>()[begin + keys[x]] = weight;
      // The output has one product and one sum over the keys; with values that are added, also a
      // sum over the keys of a distance. A result below the smallest normal number may become 0.
      const int64_t sums = added.defined() ? 2 * k_len : k_len;
      const double error =
          std::visit(
              [&](const auto& n) {
                return check::errors_of(n).weight_error(seen[x], weight, row.statistic, of_row);
              },
              normalizer) +
          static_cast<double>(sums + 2) * off.epsilon * weight + std::numeric_limits<float>::min();
      result.tolerance = std::max(result.tolerance, error);
      for (size_t c = 0; c < errors.size(); ++c) {
        const double v = value.values<double>()[keys[x] * errors.size() + c];
        const double more =
            added.defined() ? added.values<double>()[(begin + keys[x]) * errors.size() + c] : 0;
        result.output.values<double>()[static_cast<size_t>(i) * errors.size() + c] +=
            weight * (v + more);
        errors[c] += error * (std::abs(v) + std::abs(more));
      }
    }
    for (const double error : errors) result.tolerance = std::max(result.tolerance, error);
  }
  return result;
}

}  // namespace rapt::cli
