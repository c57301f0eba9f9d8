#include "cli/compare/plain_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rapt::cli {
namespace {

PlainMatrix product(const PlainMatrix& a, const PlainMatrix& b) {
  PlainMatrix c(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.columns; ++k)
      for (int64_t j = 0; j < b.columns; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

PlainMatrix transposed(const PlainMatrix& a) {
  PlainMatrix t(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) t.at(j, i) = a.at(i, j);
  return t;
}

double row_length(const PlainMatrix& a, int64_t i) {
  double square = 0;
  for (int64_t d = 0; d < a.columns; ++d) square += a.at(i, d) * a.at(i, d);
  return std::sqrt(square);
}

PlainMatrix unit_rows(const PlainMatrix& a) {
  PlainMatrix units = a;
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t d = 0; d < a.columns; ++d) units.at(i, d) /= row_length(a, i);
  return units;
}

// With weights w = x / sum of a row's x: what d_output is to them, d_output . value - d_output .
// output.
PlainMatrix gradient_of_weights(const PlainHead& head, const PlainResult& result) {
  PlainMatrix d = product(head.d_output, transposed(head.value));
  for (int64_t i = 0; i < d.rows; ++i) {
    double delta = 0;
    for (int64_t c = 0; c < result.output.columns; ++c)
      delta += head.d_output.at(i, c) * result.output.at(i, c);
    for (int64_t j = 0; j < d.columns; ++j) d.at(i, j) -= delta;
  }
  return d;
}

void finish_values(const PlainHead& head, PlainResult& result) {
  result.output = product(result.weights, head.value);
  result.d_value = product(transposed(result.weights), head.d_output);
}

void add_gradient_through_units(const PlainHead& head, const PlainMatrix& units,
                                PlainResult& result) {
  for (int64_t i = 0; i < units.rows; ++i) {
    double along = 0;
    for (int64_t d = 0; d < units.columns; ++d) along += units.at(i, d) * result.d_key.at(i, d);
    for (int64_t d = 0; d < units.columns; ++d)
      result.d_query.at(i, d) +=
          (result.d_key.at(i, d) - units.at(i, d) * along) / row_length(head.query, i);
  }
}

struct FeatureRows {
  PlainMatrix x, values;
  std::vector<PlainMatrix> derivatives;
};

FeatureRows features_of(const PlainMatrix& rows, double factor, const FeatureMap& map) {
  FeatureRows features;
  features.x = rows;
  for (int64_t i = 0; i < rows.rows; ++i) {
    std::vector<double> x;
    for (int64_t d = 0; d < rows.columns; ++d) x.push_back(factor * rows.at(i, d));
    const PlainFeatures made = map(x);
    if (i == 0) features.values = PlainMatrix(rows.rows, std::ssize(made.values));
    for (int64_t f = 0; f < features.values.columns; ++f)
      features.values.at(i, f) = made.values[static_cast<size_t>(f)];
    features.derivatives.push_back(made.derivatives);
  }
  return features;
}

// The gradient of rows from that of their features.
PlainMatrix through_features(const FeatureRows& features, const PlainMatrix& d_values,
                             double factor) {
  PlainMatrix d_rows(features.x.rows, features.x.columns);
  for (int64_t i = 0; i < d_rows.rows; ++i)
    for (int64_t f = 0; f < d_values.columns; ++f)
      for (int64_t d = 0; d < d_rows.columns; ++d)
        d_rows.at(i, d) +=
            factor * d_values.at(i, f) * features.derivatives[static_cast<size_t>(i)].at(f, d);
  return d_rows;
}

}  // namespace

PlainResult plain_softmax(const PlainHead& head, const PlainMatrix& counts, PlainKeys keys) {
  const PlainMatrix key = keys == PlainKeys::units ? unit_rows(head.query) : head.key;
  PlainResult result;
  result.weights = product(head.query, transposed(key));
  for (int64_t i = 0; i < counts.rows; ++i) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < counts.columns; ++j)
      if (counts.at(i, j) > 0) most = std::max(most, head.scale * result.weights.at(i, j));
    for (int64_t j = 0; j < counts.columns; ++j) {
      double& weight = result.weights.at(i, j);
      weight = counts.at(i, j) > 0 ? counts.at(i, j) * std::exp(head.scale * weight - most) : 0;
      sum += weight;
    }
    for (int64_t j = 0; j < counts.columns && sum > 0; ++j) result.weights.at(i, j) /= sum;
  }
  finish_values(head, result);
  PlainMatrix d_scores = gradient_of_weights(head, result);
  for (size_t p = 0; p < d_scores.numbers.size(); ++p)
    d_scores.numbers[p] *= head.scale * result.weights.numbers[p];
  result.d_query = product(d_scores, key);
  result.d_key = product(transposed(d_scores), head.query);
  if (keys == PlainKeys::units) add_gradient_through_units(head, key, result);
  return result;
}

PlainResult plain_mean(const PlainHead& head, const PlainMatrix& counts) {
  PlainHead equal = head;
  equal.scale = 0;
  PlainMatrix once = counts;
  for (double& count : once.numbers) count = count > 0 ? 1 : 0;
  return plain_softmax(equal, once, PlainKeys::own);
}

PlainResult plain_features(const PlainHead& head, const PlainMatrix& counts,
                           const FeatureMap& map) {
  const double factor = std::sqrt(head.scale);
  const FeatureRows query = features_of(head.query, factor, map);
  const FeatureRows key = features_of(head.key, factor, map);
  PlainResult result;
  result.weights = product(query.values, transposed(key.values));
  std::vector<double> sums(static_cast<size_t>(counts.rows), 0);
  for (int64_t i = 0; i < counts.rows; ++i) {
    for (int64_t j = 0; j < counts.columns; ++j) {
      result.weights.at(i, j) *= counts.at(i, j);
      sums[static_cast<size_t>(i)] += result.weights.at(i, j);
    }
    for (int64_t j = 0; j < counts.columns; ++j)
      result.weights.at(i, j) /= sums[static_cast<size_t>(i)];
  }
  finish_values(head, result);
  PlainMatrix d_sums = gradient_of_weights(head, result);
  for (int64_t i = 0; i < counts.rows; ++i)
    for (int64_t j = 0; j < counts.columns; ++j)
      d_sums.at(i, j) *= counts.at(i, j) / sums[static_cast<size_t>(i)];
  result.d_query = through_features(query, product(d_sums, key.values), factor);
  result.d_key = through_features(key, product(transposed(d_sums), query.values), factor);
  return result;
}

FeatureMap elu_features() {
  return [](const std::vector<double>& x) {
    PlainFeatures made{x, PlainMatrix(std::ssize(x), std::ssize(x))};
    for (int64_t d = 0; d < std::ssize(x); ++d) {
      const double at = x[static_cast<size_t>(d)];
      made.values[static_cast<size_t>(d)] = at > 0 ? at + 1 : std::exp(at);
      made.derivatives.at(d, d) = at > 0 ? 1 : std::exp(at);
    }
    return made;
  };
}

FeatureMap positive_features(const PlainMatrix& projection) {
  return [projection](const std::vector<double>& x) {
    PlainFeatures made{{}, PlainMatrix(projection.rows, projection.columns)};
    for (int64_t f = 0; f < projection.rows; ++f) {
      double exponent = 0;
      for (int64_t d = 0; d < projection.columns; ++d) {
        const double at = x[static_cast<size_t>(d)];
        exponent += projection.at(f, d) * at - at * at / 2;
      }
      made.values.push_back(std::exp(exponent));
      for (int64_t d = 0; d < projection.columns; ++d)
        made.derivatives.at(f, d) =
            made.values.back() * (projection.at(f, d) - x[static_cast<size_t>(d)]);
    }
    return made;
  };
}

}  // namespace rapt::cli
