#pragma once
// top_k_softmax: softmax over the k largest scores of a row (Gupta et al. 2021, arXiv:2106.06899;
// Zhao et al. 2019, arXiv:1912.11637).
//
//   weight_j = e^(score_j - lse) where score_j >= cut, else 0      cut: the k-th largest score; of
//   lse = ln sum of e^score_j over these j                         fewer than k scores the least
//
// A NaN counts as the largest score, and makes all weights of its row NaN.
#include <algorithm>
#include <functional>

#include "check/reference/softmax_family.h"

namespace check {

struct TopKSoftmaxReference : SoftmaxFamily<TopKSoftmaxReference> {
  static constexpr std::string_view kName = "top_k_softmax";
  static constexpr bool kSparse = true;
  std::optional<double> k = {};
  static constexpr NormalizerParameter<TopKSoftmaxReference> kParameters[] = {
      {"k", &TopKSoftmaxReference::k}};
  bool operator==(const TopKSoftmaxReference&) const = default;

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    std::vector<RealOf<T>> falling;
    for (const T& s : scores)
      falling.push_back(std::isnan(value_of(s)) ? kInfinityOf<T> : value_of(s));
    std::ranges::sort(falling, std::greater<>());
    const auto last = std::min<double>(k.value_or(1), static_cast<double>(falling.size())) - 1;
    const RealOf<T> cut = falling.empty() ? 0 : falling[static_cast<size_t>(last)];
    std::vector<T> largest;
    for (const T& s : scores) largest.push_back(value_of(s) < cut ? T(-kInfinityOf<T>) : s);
    Weighed<T> row = SoftmaxFamily::weigh(std::span<const T>(largest));
    row.cut = cut;
    return row;
  }
  template <class T>
  T weight(const T& score, const T& statistic, RealOf<T> cut) const {
    if (std::isnan(value_of(statistic))) return statistic;
    return value_of(score) < cut ? T(0) : exp(score - statistic);
  }
  template <class T>
  T d_score(const T&, const T& weight, const T& d_weight, const T& delta, const T&) const {
    return value_of(weight) == 0 ? T(0) : weight * (d_weight - delta);
  }
};

}  // namespace check
