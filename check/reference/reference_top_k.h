#pragma once
// Softmax over the k largest scores of a row (Gupta et al. 2021, arXiv:2106.06899; Zhao et al.
// 2019, arXiv:1912.11637): see reference_softmax.h; the differences are:
//
//   weight_j = e^(score_j - lse) where score_j >= cut, else 0      cut: the k-th largest score; of
//   lse = ln sum of e^score_j over these j                         fewer than k scores the least
//
// The errors are those of softmax, with one addition. If every score has the error sigma, a score
// within 2 sigma of the cut may lie on the other side of it, so that its weight is present or
// absent. `doubt` bounds by how much this changes the sum of the weights, relative to the sum. At
// most, all scores just below the cut are added; or, of the scores equal to the cut, those are
// dropped that exceed k. A score that takes the place of another is within 2 sigma of it.
#include <algorithm>
#include <functional>
#include <limits>

#include "check/reference/reference_softmax.h"

namespace check {

struct TopKSoftmaxReference : SoftmaxFamily<TopKSoftmaxReference> {
  static constexpr std::string_view kName = "top_k_softmax";
  static constexpr bool kSparse = true;
  std::optional<double> k = {};
  static constexpr std::array<NormalizerParameter<TopKSoftmaxReference>, 1> kParameters = {
      {{"k", &TopKSoftmaxReference::k}}};
  bool operator==(const TopKSoftmaxReference&) const = default;

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    using Real = decltype(value_of(T()));
    using std::exp, std::log;
    Weighed<T> row;
    row.statistic = T(-std::numeric_limits<Real>::infinity());
    if (scores.empty()) return row;
    std::vector<Real> falling;
    for (const T& s : scores) falling.push_back(value_of(s));
    std::ranges::sort(falling, std::greater<>());
    const auto last = std::min<double>(k.value_or(1), static_cast<double>(falling.size())) - 1;
    row.cut = falling[static_cast<size_t>(last)];
    // A row of only -inf has no finite maximum.
    const Real most = falling.front();
    const Real shift = most == -std::numeric_limits<Real>::infinity() ? Real{0} : most;
    row.divisor = T(0);
    for (const T& s : scores) {
      const bool counts = !(value_of(s) < row.cut);  // a NaN counts, and makes the sum NaN
      row.powers.push_back(counts ? exp(s - T(shift)) : T(0));
      row.divisor = row.divisor + row.powers.back();
    }
    row.statistic = T(shift) + log(row.divisor);
    return row;
  }
  template <class T>
  T weight(const T& score, const T& statistic, decltype(value_of(T())) cut) const {
    using std::exp;
    return value_of(score) < cut ? T(0) : exp(score - statistic);
  }
  template <class T>
  T d_score(const T&, const T& weight, const T& d_weight, const T& delta, const T&) const {
    return value_of(weight) == 0 ? T(0) : weight * (d_weight - delta);
  }

  double doubt(std::span<const double> scores, double statistic, const Off& off) const {
    double coming = 0, equal = 0, above = 0;
    for (const double s : scores) {
      if (s < off.cut && is_near(s, off)) coming += std::exp(s - statistic);
      equal += s == off.cut, above += s > off.cut;
    }
    const double going = off.score == 0 ? 0
                                        : std::max(0.0, above + equal - k.value_or(1)) *
                                              std::exp(off.cut - statistic);
    return std::max(coming, going < 1 ? going / (1 - going) : 0.0);
  }

  double weight_error(double score, double weight, double statistic, const Off& off) const {
    const double most = is_near(score, off) ? std::exp(score - statistic) : weight;
    const double relative = (2 * off.epsilon + off.score + off.doubt) * most;
    return is_near(score, off) ? most + relative : relative;
  }
  double statistic_error(double statistic, const Off& off) const {
    return 2 * std::max(1.0, std::abs(statistic)) * off.epsilon + off.score + off.doubt;
  }
  double weight_error_again(double score, double weight, double statistic, const Off& off) const {
    const double most = is_near(score, off) ? std::exp(score - statistic) : weight;
    return weight_error(score, weight, statistic, off) + statistic_error(statistic, off) * most;
  }

 private:
  static bool is_near(double score, const Off& off) {
    return off.score > 0 && std::abs(score - off.cut) <= 2 * off.score;
  }
};

}  // namespace check
