#pragma once
// Attention by full matrices of doubles, one head at a time, to compare the numbers of
// `rapt compare` with.
#include <cstdint>
#include <functional>
#include <vector>

namespace rapt::cli {

// A row after the other.
struct PlainMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> numbers;

  PlainMatrix() = default;
  PlainMatrix(int64_t r, int64_t c) : rows(r), columns(c), numbers(static_cast<size_t>(r * c), 0) {}
  double& at(int64_t i, int64_t j) { return numbers[static_cast<size_t>(i * columns + j)]; }
  double at(int64_t i, int64_t j) const { return numbers[static_cast<size_t>(i * columns + j)]; }
};

struct PlainHead {
  PlainMatrix query, key, value, d_output;
  double scale = 1;
};

// Weights [q_len, k_len] and what they give.
struct PlainResult {
  PlainMatrix weights, output, d_query, d_key, d_value;
};

enum class PlainKeys : uint8_t {
  own,    // the keys of the call
  units,  // the queries, divided by their lengths; d_query has the gradients of both sides
};

// counts [q_len, k_len]: how often a pair counts; 0: it is masked out. The output of a query
// without a key is 0.
PlainResult plain_softmax(const PlainHead& head, const PlainMatrix& counts, PlainKeys keys);

// The mean of the values with a count above 0.
PlainResult plain_mean(const PlainHead& head, const PlainMatrix& counts);

// The features of a row x, and how they change with it: derivatives [feature, dimension].
struct PlainFeatures {
  std::vector<double> values;
  PlainMatrix derivatives;
};
using FeatureMap = std::function<PlainFeatures(const std::vector<double>& x)>;

// Weights map(sqrt(scale) q) . map(sqrt(scale) k), divided by their sums.
PlainResult plain_features(const PlainHead& head, const PlainMatrix& counts, const FeatureMap& map);

FeatureMap elu_features();
FeatureMap positive_features(
    const PlainMatrix& projection);  // exp(w . x - |x|^2 / 2) for its rows w

}  // namespace rapt::cli
