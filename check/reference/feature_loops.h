#pragma once
// Attention by a feature map as loops over tokens, to be read; forward and backward. With the sums
// S = sum_j phi(y_j) v_j and z = sum_j phi(y_j) over the keys that query i attends to:
//
//   D_i = phi(x_i) . z          output_i = phi(x_i) S / D_i           lse_i = ln(c D_i)
//   n_i = d_output_i / D_i      e_i = (d_lse_i - d_output_i . output_i) / D_i
//   d_phi(x_i) = S n_i + e_i z
//   T = sum_i phi(x_i) n_i, t = sum_i phi(x_i) e_i over the queries that attend to key j
//   d_phi(y_j) = T v_j + t      d_value_j = phi(y_j) T
//
// Without division, n_i = d_output_i, e_i = 0, and there is no lse. c makes D an estimate of the
// sum of e^score: 1 / rows for random features, half of that for hyperbolic ones, and
// (1 - 4 A)^(head_dim / 2) with the exponent A of FAVOR++.
//
// x = sqrt(|scale|) query, with the sign of the scale, and y = sqrt(|scale|) key. A query attends
// to the first keys, to no fewer than the query before it: the methods accept no other masks.
// Without any pair, the gradients of a query, and of a key and value, are 0, even if these are NaN.
//
// N: a floating-point type, or numbers that carry an error (tolerance/rounded.h). 16-bit outputs
// and gradients are rounded as they are stored, in the plain loop and as errors, not in the truth.
#include <limits>
#include <stdexcept>

#include "check/reference/backward_reference.h"
#include "check/reference/feature_formulas.h"

namespace check {

// x as it is stored. Numbers that carry an error have a function of this name.
template <std::floating_point Real>
Real stored(rapt::DType dtype, Real x) {
  return std::is_same_v<Real, float> ? rounded(dtype, x) : x;
}

template <class N>
struct FeatureResults {
  std::vector<N> output, lse;              // [..., q_len, value_dim], [..., q_len]
  std::vector<N> state;                    // [..., features][value_dim + 1]: S and z after the last
  std::vector<N> d_query, d_key, d_value;  // in the shapes of the inputs; empty without gradients
};

template <class N>
class FeatureLoops {
 public:
  using Row = std::vector<N>;

  // `incoming` null: no gradients.
  FeatureLoops(const Problem& p, const Incoming* incoming)
      : p_(p),
        in_(incoming),
        sizes_(sizes_of(p)),
        map_(*p.features, sizes_.head_dim),
        dims_(static_cast<size_t>(sizes_.value_dim)) {
    const double scale = p.scale ? *p.scale : 1 / std::sqrt(static_cast<double>(sizes_.head_dim));
    key_factor_ = sqrt(of_double<N>(std::abs(scale)));
    query_factor_ = scale < 0 ? -key_factor_ : key_factor_;
    if (!in_) return;
    d_query_.resize(static_cast<size_t>(p.query.count()));
    d_key_.resize(static_cast<size_t>(p.key.count()));
    d_value_.resize(static_cast<size_t>(p.value.count()));
  }

  FeatureResults<N> run() {
    for (int64_t head = 0; head < sizes_.heads; ++head) {
      enter(head);
      sum_keys();
      if (in_) sum_queries();
    }
    if (!in_) return std::move(results_);
    const rapt::DType dtype = in_->gradient_dtype.value_or(p_.query.dtype);
    const auto finish = [&](const std::vector<Sum<N>>& sums, std::vector<N>& to) {
      for (const Sum<N>& sum : sums) to.push_back(stored(dtype, sum.value()));
    };
    finish(d_query_, results_.d_query);
    finish(d_key_, results_.d_key);
    finish(d_value_, results_.d_value);
    return std::move(results_);
  }

 private:
  // A row of numbers and its features.
  struct Token {
    Row x, phi;
  };

  void enter(int64_t head) {
    head_ = head;
    const std::vector<int64_t> leading = leading_index(head, sizes_.leading);
    const auto tokens = [&](const rapt::TensorView& t, int64_t length, const N& factor) {
      const Matrix m = matrix_of(t, leading, sizes_.leading);
      std::vector<Token> all(static_cast<size_t>(length));
      for (int64_t i = 0; i < length; ++i) {
        Token& token = all[static_cast<size_t>(i)];
        for (int64_t d = 0; d < sizes_.head_dim; ++d)
          token.x.push_back(factor * constant<N>(m(i, d)));
        token.phi = map_.of(token.x);
      }
      return all;
    };
    queries_ = tokens(p_.query, sizes_.q_len, query_factor_);
    keys_ = tokens(p_.key, sizes_.k_len, key_factor_);
    const Matrix v = matrix_of(p_.value, leading, sizes_.leading);
    values_.assign(keys_.size(), {});
    for (size_t j = 0; j < keys_.size(); ++j)
      for (size_t c = 0; c < dims_; ++c)
        values_[j].push_back(constant<N>(v(static_cast<int64_t>(j), static_cast<int64_t>(c))));
    ends_.clear();
    int64_t end = 0;
    for (int64_t i = 0; i < sizes_.q_len; ++i) {
      while (end < sizes_.k_len && (!p_.allowed || p_.allowed(leading, i, end))) ++end;
      if (end > 0 && p_.allowed && !p_.allowed(leading, i, end - 1))
        throw std::logic_error("a query attends to fewer keys than the one before it");
      ends_.push_back(static_cast<size_t>(end));
    }
  }

  // Sums of features times rows, and of features.
  struct Sums {
    std::vector<std::vector<Sum<N>>> rows;  // [features][value_dim]
    std::vector<Sum<N>> units;              // [features]

    void begin(size_t features, size_t dims) {
      rows.assign(features, std::vector<Sum<N>>(dims));
      units.assign(features, {});
    }
    void add(const Row& phi, const Row& row, const N& unit) {
      for (size_t f = 0; f < phi.size(); ++f) {
        for (size_t c = 0; c < row.size(); ++c) rows[f][c].add(phi[f] * row[c]);
        units[f].add(phi[f] * unit);
      }
    }
    // The sums times a row, of each feature: what the gradient of a feature is.
    Row times(const Row& row, const N& unit) const {
      Row d;
      for (size_t f = 0; f < rows.size(); ++f) {
        Sum<N> sum;
        for (size_t c = 0; c < row.size(); ++c) sum.add(rows[f][c].value() * row[c]);
        sum.add(units[f].value() * unit);
        d.push_back(sum.value());
      }
      return d;
    }
    N row(const Row& phi, size_t c) const {
      Sum<N> sum;
      for (size_t f = 0; f < phi.size(); ++f) sum.add(phi[f] * rows[f][c].value());
      return sum.value();
    }
    N unit(const Row& phi) const {
      Sum<N> sum;
      for (size_t f = 0; f < phi.size(); ++f) sum.add(phi[f] * units[f].value());
      return sum.value();
    }
  };

  size_t features() const { return map_.of(Row(static_cast<size_t>(sizes_.head_dim))).size(); }

  // Output, lse, n, e and the gradients of queries.
  void sum_keys() {
    Sums sums;
    sums.begin(features(), dims_);
    n_.clear(), e_.clear();
    size_t j = 0;
    for (size_t i = 0; i < queries_.size(); ++i) {
      for (; j < ends_[i]; ++j) sums.add(keys_[j].phi, values_[j], constant<N>(1));
      attend(i, sums);
      if (!in_ || ends_[i] == 0) continue;
      const Row d_phi = sums.times(n_.back(), e_.back());
      add_gradient(queries_[i], d_phi, query_factor_, i, places_of(p_.query, head_, sizes_),
                   d_query_);
    }
    for (size_t f = 0; f < sums.rows.size(); ++f) {
      for (const Sum<N>& sum : sums.rows[f]) results_.state.push_back(sum.value());
      results_.state.push_back(sums.units[f].value());
    }
  }

  void attend(size_t i, const Sums& sums) {
    const bool any = ends_[i] > 0, normalized = p_.features->normalized;
    const rapt::DType dtype = p_.output_dtype.value_or(p_.query.dtype);
    const N zero{}, total = sums.unit(queries_[i].phi);
    const N inverse_total = !any ? zero : normalized ? inverse(total) : constant<N>(1);
    Row output(dims_);
    for (size_t c = 0; c < dims_ && any; ++c)
      output[c] = stored(dtype, sums.row(queries_[i].phi, c) * inverse_total);
    results_.output.insert(results_.output.end(), output.begin(), output.end());
    results_.lse.push_back(!normalized ? zero
                           : any       ? log(total) + log_factor()
                                       : constant<N>(-std::numeric_limits<double>::infinity()));
    if (!in_) return;
    const auto row = static_cast<int64_t>(i) + head_ * sizes_.q_len;
    Row n(dims_);
    Sum<N> e;
    if (in_->d_lse.defined()) e.add(constant<N>(element(in_->d_lse, row)));
    for (size_t c = 0; c < dims_; ++c) {
      const N d =
          constant<N>(element(in_->d_output, row * sizes_.value_dim + static_cast<int64_t>(c)));
      if (any) n[c] = normalized ? d * inverse_total : d;
      e.add(-(d * output[c]));
    }
    n_.push_back(std::move(n));
    e_.push_back(any && normalized ? e.value() * inverse_total : zero);
  }

  // The gradients of keys and values.
  void sum_queries() {
    const Places of_key = places_of(p_.key, head_, sizes_),
                 of_value = places_of(p_.value, head_, sizes_);
    Sums sums;
    sums.begin(features(), dims_);
    size_t i = queries_.size();
    for (size_t j = keys_.size(); j-- > 0;) {
      for (; i > 0 && ends_[i - 1] > j; --i) sums.add(queries_[i - 1].phi, n_[i - 1], e_[i - 1]);
      if (i == queries_.size()) continue;
      add_gradient(keys_[j], sums.times(values_[j], constant<N>(1)), key_factor_, j, of_key,
                   d_key_);
      for (size_t c = 0; c < dims_; ++c)
        d_value_[of_value(static_cast<int64_t>(j), static_cast<int64_t>(c))].add(
            sums.row(keys_[j].phi, c));
    }
  }

  void add_gradient(const Token& token, const Row& d_phi, const N& factor, size_t nth,
                    const Places& places, std::vector<Sum<N>>& sums) const {
    const Row d = map_.gradient(token.x, token.phi, d_phi);
    for (size_t k = 0; k < d.size(); ++k)
      sums[places(static_cast<int64_t>(nth), static_cast<int64_t>(k))].add(factor * d[k]);
  }

  N log_factor() const {
    const FeatureProblem& f = *p_.features;
    if (f.rows == 0) return N{};
    const double rows = static_cast<double>(f.rows) * (f.map == FeatureMap::hyperbolic ? 2 : 1);
    return of_double<N>(-std::log(rows) +
                        static_cast<double>(sizes_.head_dim) / 2 * std::log(1 - 4 * f.exponent));
  }

  const Problem& p_;
  const Incoming* in_;
  const Sizes sizes_;
  const Features<N> map_;
  const size_t dims_;
  N query_factor_{}, key_factor_{};
  FeatureResults<N> results_;
  std::vector<Sum<N>> d_query_, d_key_, d_value_;
  // Of the current head:
  int64_t head_ = 0;
  std::vector<Token> queries_, keys_;
  std::vector<Row> values_;
  std::vector<size_t> ends_;  // query i attends to keys [0, ends[i])
  std::vector<Row> n_;
  Row e_;
};

}  // namespace check
