#pragma once
// Attention by a feature map, as data: the weights are w(i, j) = phi(x_i) . phi(y_j) with
// x = sqrt(scale) query and y = sqrt(scale) key; feature_loops.h computes it.
#include <cstdint>
#include <vector>

namespace check {

// In the order in which the library lists them.
enum class FeatureMap : uint8_t { positive, hyperbolic, trigonometric, elu, relu, taylor };

struct FeatureProblem {
  FeatureMap map = FeatureMap::elu;
  bool normalized = true;               // is the output divided by the sum of weights?
  int64_t rows = 0;                     // of the projection; 0: the map has none
  double exponent = 0;                  // A of FAVOR++
  std::vector<double> projection = {};  // [rows][head_dim]
};

}  // namespace check
