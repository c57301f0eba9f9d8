#pragma once
// Attention by feature maps as loops over pairs of tokens, to be read; forward and backward. Shares
// no code with the library but the projection, which is data.
//
//   w_ij = phi(sqrt(s) q_i) . phi(sqrt(s) k_j)    output_i = sum_j w_ij v_j / sum_j w_ij
//   lse_i = ln(factor sum_j w_ij)
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace laws {

template <class Real>
using Numbers = std::vector<Real>;

struct TokenProblem {
  std::string map;  // positive, hyperbolic, trigonometric, elu, relu, taylor
  int64_t q_len, k_len, head_dim, value_dim;
  bool causal = false, normalized = true;
  double scale = 1, exponent = 0;
  int64_t features = 0;             // rows of the projection
  Numbers<double> projection = {};  // [features][head_dim]

  int64_t end(int64_t i) const { return causal ? std::min(i + 1, k_len) : k_len; }
};

template <class Real>
struct TokenResults {
  Numbers<Real> output, lse, d_query, d_key, d_value;
};

template <class Real>
class TokenLoops {
 public:
  TokenLoops(const TokenProblem& problem, Numbers<Real> query, Numbers<Real> key,
             Numbers<Real> value)
      : p_(problem), value_(std::move(value)), root_(std::sqrt(static_cast<Real>(p_.scale))) {
    for (Real& x : query) x *= root_;
    for (Real& x : key) x *= root_;
    query_ = std::move(query), key_ = std::move(key);
    for (int64_t i = 0; i < p_.q_len; ++i) of_query_.push_back(features(row(query_, i)));
    for (int64_t j = 0; j < p_.k_len; ++j) of_key_.push_back(features(row(key_, j)));
  }

  TokenResults<Real> run(const Numbers<Real>& d_output, const Numbers<Real>& d_lse) const {
    TokenResults<Real> r;
    const int64_t dims = p_.value_dim;
    Numbers<Numbers<Real>> d_query(of_query_.size()), d_key(of_key_.size());
    for (size_t i = 0; i < d_query.size(); ++i) d_query[i].assign(of_query_[i].size(), 0);
    for (size_t j = 0; j < d_key.size(); ++j) d_key[j].assign(of_key_[j].size(), 0);
    r.d_value.assign(static_cast<size_t>(p_.k_len * dims), 0);
    for (int64_t i = 0; i < p_.q_len; ++i) {
      const auto n = static_cast<size_t>(i);
      Numbers<Real> sum(static_cast<size_t>(dims), 0);
      Real total = 0;
      for (int64_t j = 0; j < p_.end(i); ++j) {
        const Real w = dot(of_query_[n], of_key_[static_cast<size_t>(j)]);
        total += w;
        for (int64_t c = 0; c < dims; ++c) sum[static_cast<size_t>(c)] += w * value_[at(j, c)];
      }
      const Real divisor = p_.normalized ? total : 1;
      Real along = 0;
      for (int64_t c = 0; c < dims; ++c) {
        r.output.push_back(p_.end(i) == 0 ? 0 : sum[static_cast<size_t>(c)] / divisor);
        along += r.output.back() * d_output[at(i, c)];
      }
      r.lse.push_back(std::log(total) + log_factor());
      const Real of_total = p_.normalized ? (d_lse[n] - along) / total : 0;
      for (int64_t j = 0; j < p_.end(i); ++j) {
        const auto m = static_cast<size_t>(j);
        const Real w = dot(of_query_[n], of_key_[m]);
        Real d = of_total;
        for (int64_t c = 0; c < dims; ++c) {
          d += d_output[at(i, c)] / divisor * value_[at(j, c)];
          r.d_value[at(j, c)] += w * (d_output[at(i, c)] / divisor);
        }
        for (size_t f = 0; f < of_key_[m].size(); ++f) {
          d_query[n][f] += d * of_key_[m][f];
          d_key[m][f] += d * of_query_[n][f];
        }
      }
    }
    for (int64_t i = 0; i < p_.q_len; ++i)
      append(
          back(row(query_, i), of_query_[static_cast<size_t>(i)], d_query[static_cast<size_t>(i)]),
          r.d_query);
    for (int64_t j = 0; j < p_.k_len; ++j)
      append(back(row(key_, j), of_key_[static_cast<size_t>(j)], d_key[static_cast<size_t>(j)]),
             r.d_key);
    return r;
  }

 private:
  size_t at(int64_t i, int64_t c) const { return static_cast<size_t>(i * p_.value_dim + c); }
  const Real* row(const Numbers<Real>& x, int64_t i) const { return x.data() + i * p_.head_dim; }
  static Real dot(const Numbers<Real>& a, const Numbers<Real>& b) {
    Real sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }
  Real w(int64_t r, int64_t d) const {
    return static_cast<Real>(p_.projection[static_cast<size_t>(r * p_.head_dim + d)]);
  }
  Real root() const { return std::sqrt(static_cast<Real>(1 - 4 * p_.exponent)); }
  Real log_factor() const {
    const auto m = static_cast<Real>(p_.features);
    if (p_.map == "elu" || p_.map == "relu" || p_.map == "taylor") return 0;
    return -std::log(p_.map == "hyperbolic" ? 2 * m : m) +
           static_cast<Real>(p_.head_dim) / 2 * std::log(static_cast<Real>(1 - 4 * p_.exponent));
  }

  Numbers<Real> features(const Real* x) const {
    Numbers<Real> f;
    const int64_t n = p_.head_dim;
    if (p_.map == "elu" || p_.map == "relu") {
      for (int64_t d = 0; d < n; ++d)
        f.push_back(x[d] > 0          ? x[d] + (p_.map == "elu" ? 1 : 0)
                    : p_.map == "elu" ? std::exp(x[d])
                                      : 0);
      return f;
    }
    if (p_.map == "taylor") {
      f.push_back(1);
      for (int64_t d = 0; d < n; ++d) f.push_back(x[d]);
      for (int64_t d = 0; d < n; ++d)
        for (int64_t e = d; e < n; ++e)
          f.push_back(d == e ? x[d] * x[d] / std::sqrt(Real(2)) : x[d] * x[e]);
      return f;
    }
    Real half = 0;
    for (int64_t d = 0; d < n; ++d) half += x[d] * x[d] / 2;
    for (const int part : {0, 1}) {
      if (part == 1 && p_.map == "positive") break;
      for (int64_t r = 0; r < p_.features; ++r) {
        Real s = 0, square = 0;
        for (int64_t d = 0; d < n; ++d) s += w(r, d) * x[d], square += w(r, d) * w(r, d);
        if (p_.map == "trigonometric")
          f.push_back((part == 0 ? std::cos(s) : std::sin(s)) * std::exp(half));
        else
          f.push_back(std::exp((part == 0 ? 1 : -1) * root() * s +
                               static_cast<Real>(p_.exponent) * square - half));
      }
    }
    return f;
  }

  // The gradient of a row of the query or key.
  Numbers<Real> back(const Real* x, const Numbers<Real>& f, const Numbers<Real>& d_f) const {
    const int64_t n = p_.head_dim, m = p_.features;
    Numbers<Real> d(static_cast<size_t>(n), 0);
    const auto add = [&](int64_t i, Real term) { d[static_cast<size_t>(i)] += term; };
    if (p_.map == "elu" || p_.map == "relu") {
      for (int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<size_t>(i);
        add(i, d_f[k] * (x[i] > 0 ? 1 : p_.map == "elu" ? f[k] : 0));
      }
    } else if (p_.map == "taylor") {
      for (int64_t i = 0; i < n; ++i) add(i, d_f[static_cast<size_t>(1 + i)]);
      auto k = static_cast<size_t>(1 + n);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = i; j < n; ++j, ++k) {
          add(i, d_f[k] * (i == j ? std::sqrt(Real(2)) * x[i] : x[j]));
          if (i != j) add(j, d_f[k] * x[i]);
        }
    } else {
      const bool trig = p_.map == "trigonometric";
      for (size_t k = 0; k < f.size(); ++k) {
        const auto r = static_cast<int64_t>(k) % m;
        const bool first = static_cast<int64_t>(k) < m;
        const Real of_half = (trig ? 1 : -1) * d_f[k] * f[k];
        const Real other =
            trig ? f[first ? k + static_cast<size_t>(m) : k - static_cast<size_t>(m)] : f[k];
        const Real of_input =
            d_f[k] * other * (trig ? (first ? -1 : 1) : (first ? 1 : -1)) * (trig ? 1 : root());
        for (int64_t i = 0; i < n; ++i) add(i, of_input * w(r, i) + of_half * x[i]);
      }
    }
    for (Real& g : d) g *= root_;
    return d;
  }
  static void append(const Numbers<Real>& from, Numbers<Real>& to) {
    to.insert(to.end(), from.begin(), from.end());
  }

  TokenProblem p_;
  Numbers<Real> query_, key_, value_;
  Real root_;
  Numbers<Numbers<Real>> of_query_, of_key_;
};

}  // namespace laws
