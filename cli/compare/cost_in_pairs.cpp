#include "cli/compare/cost_in_pairs.h"

#include "rapt/feature_map/taylor.h"
#include "rapt/method/favor.h"
#include "rapt/method/linear.h"
#include "timing/sampling.h"

namespace rapt::cli {

std::optional<double> pairs_of_operations(const Method& method, const CompareProblem& problem) {
  const auto head_dim = static_cast<double>(problem.head_dim());
  const auto value_dim = static_cast<double>(problem.value_dim());
  double features = 0, projected = 0;  // operations of the projection of a row
  if (const auto* const favor = dynamic_cast<const Favor*>(&method)) {
    const auto rows = static_cast<double>(favor->features);
    features = favor->kind == FavorKind::positive ? rows : 2 * rows;
    projected = 2 * rows * head_dim;
  } else if (const auto* const linear = dynamic_cast<const Linear*>(&method)) {
    features = linear->map == LinearMap::taylor
                   ? static_cast<double>(TaylorFeatures::features(problem.head_dim()))
                   : head_dim;
  } else {
    return std::nullopt;
  }
  const auto rows = static_cast<double>((problem.q_len() + problem.k_len()) * problem.heads());
  return rows * (projected + 2 * features * (value_dim + 1)) / (2 * (head_dim + value_dim));
}

double cost_in_pairs(const Contender& alternative, const CompareProblem& problem, double all) {
  if (const Method* const method = alternative.alternative->method())
    if (const std::optional<double> pairs = pairs_of_operations(*method, problem)) return *pairs;
  std::vector<double> shares;
  for (const TrueWeights& weights : alternative.measured.weights) shares.push_back(weights.pairs);
  // A method that neither looks at pairs nor counts operations, such as mean, costs no pair.
  return shares.empty() ? 0 : timing::median(shares) * all;
}

}  // namespace rapt::cli
