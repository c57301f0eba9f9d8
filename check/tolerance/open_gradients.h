#pragma once
// The elements of gradients that may be anything, because their sums multiply a number that is not
// finite by one that may be 0 in the library and not in the reference, or the other way round:
//   a weight that may vanish (may_vanish), or that dropout removes;
//   the slope of softpick at a score near 0;
//   the slope at an infinite product or bias whose score is finite, and at an infinite score of
//     sigmoid: it is 0, or nearly 0;
//   a weight of 0 of a sparse normaliser: its pair is left out or multiplied by 0, as it is faster.
// In the first three cases all gradients of the row are open.
// Some sums over all pairs add their terms in another order: d_scale is the sum of
// d_query . query; dZ is summed over the keys that share a table row before it is multiplied by the
// query; and products with tables are summed over padding, too.
#include "check/tolerance/gradient_tolerance.h"
#include "check/tolerance/normalizer_errors.h"
#include "check/tolerance/score_errors.h"

namespace check {

// Real: the type that rounds, Wide: the type of the truth.
template <class Real, class Wide>
class OpenGradients {
 public:
  // The error bounds of one row; each array has an element per unmasked key.
  struct Bounds {
    const Off& off;
    std::span<const double> weights, weight_errors;
    std::span<const ScoreChain<Dual<Wide>>> chains;
  };

  OpenGradients(const Problem& p, const Sizes& sizes) : p_(p), sizes_(sizes) {
    const auto none = [](const rapt::TensorView& t) {
      return std::vector<char>(static_cast<size_t>(t.count()), 0);
    };
    query_ = none(p.query), key_ = none(p.key), value_ = none(p.value), bias_ = none(p.bias);
  }

  void add(const GradientRow<Wide>& g, const Bounds& bounds) {
    const Row<Wide>& row = *g.forward;
    if (row.head != head_) enter(row.head);
    if (is_open(g, bounds)) open_row(row);
    if (is_sparse(row.normalizer)) open_left_out(g, bounds);
    open_sums(g);
    open_normalizer(g, bounds);
  }

  // Marks the elements in the expectations.
  void mark(GradientExpectations& e) const {
    e.query.open = query_, e.key.open = key_, e.value.open = value_, e.bias.open = bias_;
    const bool products = rows_ || products_;
    if (products || scale_) mark_all(e.scale);
    if (products)
      for (Expectation& table : e.relative) mark_all(table);
    if (rows_) mark_all(e.numbers);
    if (rows_ || normalizer_) mark_all(e.normalizer);
  }

 private:
  static constexpr double kEpsilon = std::numeric_limits<Real>::epsilon();
  static constexpr double kTiny = std::numeric_limits<Real>::min();

  static void mark_all(Expectation& e) { e.open.assign(e.truth.size(), 1); }
  static bool all_finite(std::span<const Wide> numbers) {
    return std::ranges::all_of(numbers, [](Wide x) { return std::isfinite(x); });
  }
  bool query_finite(const Row<Wide>& row) const {
    return all_finite({row.inputs->query_row(row.index), static_cast<size_t>(sizes_.head_dim)});
  }
  bool key_finite(const Row<Wide>& row, int64_t j) const {
    return all_finite({row.inputs->key_row(j), static_cast<size_t>(sizes_.head_dim)});
  }

  void enter(int64_t head) {
    head_ = head;
    query_at_ = places_of(p_.query, head, sizes_);
    key_at_ = places_of(p_.key, head, sizes_);
    value_at_ = places_of(p_.value, head, sizes_);
    if (p_.bias.defined()) bias_at_ = places_of(p_.bias, head, sizes_);
  }

  static bool is_open(const GradientRow<Wide>& g, const Bounds& bounds) {
    // With such an error, the power of a score minus the stored statistic overflows.
    constexpr double kMostInPower = 40;
    if (bounds.off.score > kMostInPower) return true;
    const Row<Wide>& row = *g.forward;
    bool finite = std::isfinite(g.delta) && all_finite(g.d_output), vanishes = false;
    for (size_t x = 0; x < row.pairs.size(); ++x) {
      const Pair<Wide>& pair = row.pairs[x];
      if (is_saturated(row.normalizer, pair) || is_flat(g.d_scores[x], bounds.chains[x].slope))
        return true;
      const bool dropped = pair.kept == 0;
      finite = finite && std::isfinite(g.d_weights[x]) && !(dropped && !std::isfinite(pair.weight));
      vanishes = vanishes || dropped || is_at_kink(row, pair.score, bounds.off) ||
                 may_vanish(row.normalizer, bounds.weights[x], bounds.weight_errors[x], kTiny);
    }
    return vanishes && !finite;
  }
  static bool is_saturated(const Normalizer& normalizer, const Pair<Wide>& pair) {
    return std::isfinite(pair.score)
               ? std::isinf(pair.dot) || std::isinf(pair.bias)
               : std::isinf(pair.score) && std::holds_alternative<SigmoidReference>(normalizer);
  }
  // The gradient of a NaN score is a number with relu, and scores may multiply it by 0.
  static bool is_flat(Wide d_score, const Dual<Wide>& slope) {
    return (std::isnan(slope.value) && std::isfinite(d_score)) ||
           (std::isinf(d_score) && size(slope.value) <= kEpsilon * slope.value_error);
  }
  static bool is_at_kink(const Row<Wide>& row, Wide score, const Off& off) {
    const auto* softpick = std::get_if<SoftpickReference>(&row.normalizer);
    return softpick && (std::isinf(score) || errors_of(*softpick).may_be_zero(
                                                 static_cast<double>(score),
                                                 static_cast<double>(row.weighed.statistic), off));
  }

  void open_row(const Row<Wide>& row) {
    rows_ = true;
    for (const Pair<Wide>& pair : row.pairs) {
      for (int64_t d = 0; d < sizes_.head_dim; ++d)
        query_[query_at_(row.index, d)] = key_[key_at_(pair.key, d)] = 1;
      for (int64_t c = 0; c < sizes_.value_dim; ++c) value_[value_at_(pair.key, c)] = 1;
      if (!bias_.empty()) bias_[bias_at_(row.index, pair.key)] = 1;
    }
  }

  void open_left_out(const GradientRow<Wide>& g, const Bounds& bounds) {
    const Row<Wide>& row = *g.forward;
    const bool finite_query = query_finite(row), finite_d_output = all_finite(g.d_output);
    for (size_t x = 0; x < row.pairs.size(); ++x) {
      if (bounds.weights[x] != 0) continue;
      const int64_t j = row.pairs[x].key;
      const bool finite_key = key_finite(row, j);
      for (int64_t d = 0; d < sizes_.head_dim; ++d) {
        if (!finite_key) query_[query_at_(row.index, d)] = 1;
        if (!finite_query) key_[key_at_(j, d)] = 1;
      }
      for (int64_t c = 0; c < sizes_.value_dim; ++c)
        if (!finite_d_output) value_[value_at_(j, c)] = 1;
      products_ = products_ || !(finite_key && finite_query && finite_d_output);
    }
  }

  void open_sums(const GradientRow<Wide>& g) {
    const Row<Wide>& row = *g.forward;
    bool finite = query_finite(row);
    for (size_t x = 0; x < row.pairs.size(); ++x) {
      const Wide dz = g.d_products[x];
      scale_ = scale_ || std::isinf(dz) || (!std::isnan(dz) && !std::isfinite(row.pairs[x].dot));
      finite = finite && key_finite(row, row.pairs[x].key);
    }
    products_ = products_ || (p_.relative.any() && !finite);
  }

  // With large scores, none of the weights that follow from the stored threshold may be right.
  void open_normalizer(const GradientRow<Wide>& g, const Bounds& bounds) {
    const Normalizer& normalizer = g.forward->normalizer;
    bool vanish = !bounds.weights.empty() && std::holds_alternative<EntmaxReference>(normalizer);
    for (size_t x = 0; x < bounds.weights.size(); ++x)
      vanish = vanish && (bounds.weights[x] == 0 || may_vanish(normalizer, bounds.weights[x],
                                                               bounds.weight_errors[x], kTiny));
    normalizer_ = normalizer_ || vanish || std::isinf(g.delta);
  }

  const Problem& p_;
  const Sizes& sizes_;
  int64_t head_ = -1;
  Places query_at_, key_at_, value_at_, bias_at_;
  std::vector<char> query_, key_, value_, bias_;  // the open elements, in the shapes of the inputs
  // Whether a row is open; and the sums of products with tables, of the scale, and of the
  // normaliser's parameter.
  bool rows_ = false, products_ = false, scale_ = false, normalizer_ = false;
};

}  // namespace check
