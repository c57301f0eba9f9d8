#include "cli/compare/metrics/true_weights.h"

#include <algorithm>
#include <vector>

#include "cli/compare/metrics/tensor_rows.h"

namespace rapt::cli {
namespace {

// Puts the keys of the largest weights first, of equal weights the earlier key.
void put_largest_first(const double* weights, std::vector<int64_t>& keys) {
  const int64_t count = std::min<int64_t>(kRecallSizes.back(), std::ssize(keys));
  std::partial_sort(keys.begin(), keys.begin() + count, keys.end(), [&](int64_t a, int64_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  });
}

}  // namespace

void TrueWeightsSum::add(const TensorView& weights, const TensorView& exact_pairs,
                         const TensorView& pairs) {
  TensorRows exact(weights), possible(exact_pairs), looked_at(pairs);
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < exact.rows(); ++i) {
    const double* const weight = exact.row(i);
    const double* const has = possible.row(i);
    const double* const looks = looked_at.row(i);
    keys.clear();
    for (int64_t j = 0; j < exact.columns(); ++j) {
      if (!(has[j] > 0)) continue;
      keys.push_back(j);
      if (!(looks[j] > 0)) continue;
      ++pairs_;
      share_ += weight[j];
    }
    if (keys.empty()) continue;
    exact_pairs_ += std::ssize(keys);
    ++rows_;
    put_largest_first(weight, keys);
    for (size_t s = 0; s < kRecallSizes.size(); ++s) {
      const int64_t size = std::min<int64_t>(kRecallSizes[s], std::ssize(keys));
      int64_t found = 0;
      for (int64_t k = 0; k < size; ++k) found += looks[keys[static_cast<size_t>(k)]] > 0;
      recall_[s] += static_cast<double>(found) / static_cast<double>(size);
    }
  }
}

TrueWeights TrueWeightsSum::mean() const {
  TrueWeights mean{};
  if (rows_ == 0) return mean;
  const auto rows = static_cast<double>(rows_);
  mean.share = share_ / rows;
  for (size_t s = 0; s < kRecallSizes.size(); ++s) mean.recall[s] = recall_[s] / rows;
  mean.pairs = static_cast<double>(pairs_) / static_cast<double>(exact_pairs_);
  return mean;
}

}  // namespace rapt::cli
