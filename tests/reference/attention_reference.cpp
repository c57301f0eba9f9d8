#include "reference/attention_reference.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace reference {
namespace {

using rapt::TensorView;
using Index = std::vector<int64_t>;

// Length of the leading dimension that is `from_right` places left of the matrix; 1 if missing.
int64_t leading_length(const TensorView& t, size_t from_right) {
  const int dim = t.rank - 3 - static_cast<int>(from_right);
  return dim < 0 ? 1 : t.shape[dim];
}

// The index of `t`'s matrix that serves the output's head `leading`: equal, 0 where t repeats, and
// h / (heads / own heads) where t has fewer heads.
Index own_leading(const TensorView& t, std::span<const int64_t> leading,
                  std::span<const int64_t> lengths) {
  const size_t own_rank = static_cast<size_t>(t.rank - 2);
  Index own(own_rank);
  for (size_t i = 0; i < own_rank; ++i) {
    const size_t from_right = own_rank - 1 - i;
    const size_t out = lengths.size() - 1 - from_right;
    const int64_t length = t.shape[i];
    own[i] = length == lengths[out] ? leading[out] : leading[out] / (lengths[out] / length);
  }
  return own;
}

double at(const TensorView& t, const Index& leading, int64_t row, int64_t column) {
  Index index = leading;
  index.push_back(row);
  index.push_back(column);
  return element(t, index);
}

template <class Real>
std::vector<Real> matrix(const TensorView& t, std::span<const int64_t> leading,
                         std::span<const int64_t> lengths) {
  const Index own = own_leading(t, leading, lengths);
  const int64_t rows = t.shape[t.rank - 2], columns = t.shape[t.rank - 1];
  std::vector<Real> values;
  values.reserve(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) values.push_back(static_cast<Real>(at(t, own, r, c)));
  return values;
}

// One head, appended to `result`.
template <class Real>
void attend(const Problem& p, std::span<const int64_t> leading, Real scale, Result<Real>& result) {
  const int64_t q_len = result.q_len, k_len = result.k_len;
  const int64_t head_dim = result.head_dim, value_dim = result.value_dim;
  const auto query = matrix<Real>(p.query, leading, result.leading);  // [q_len, head_dim]
  const auto key = matrix<Real>(p.key, leading, result.leading);      // [k_len, head_dim]
  const auto value = matrix<Real>(p.value, leading, result.leading);  // [k_len, value_dim]
  const Index bias_leading =
      p.bias.defined() ? own_leading(p.bias, leading, result.leading) : Index{};
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

  for (int64_t c = 0; c < value_dim; ++c) {
    Real sum = 0;
    for (int64_t j = 0; j < k_len; ++j)
      if (const Real v = value[static_cast<size_t>(j * value_dim + c)]; std::isfinite(v))
        sum += std::abs(v);
    result.value_sum.push_back(sum);
  }
  for (int64_t i = 0; i < q_len; ++i) {
    std::vector<int64_t> visible;
    std::vector<Real> score;  // of the visible keys
    Real maximum = -kInfinity, largest_dot = 0, largest_bias = 0;
    for (int64_t j = 0; j < k_len; ++j) {
      if (p.allowed && !p.allowed(leading, i, j)) continue;
      Real bias = 0;
      if (p.bias.defined())
        bias =
            static_cast<Real>(at(p.bias, bias_leading, p.bias.shape[p.bias.rank - 2] == 1 ? 0 : i,
                                 p.bias.shape[p.bias.rank - 1] == 1 ? 0 : j));
      if (bias == -kInfinity) continue;
      Real dot = 0, squares = 0;
      for (int64_t d = 0; d < head_dim; ++d) {
        const Real product = query[static_cast<size_t>(i * head_dim + d)] *
                             key[static_cast<size_t>(j * head_dim + d)];
        dot += product;
        squares += product * product;
      }
      visible.push_back(j);
      score.push_back(scale * dot + bias);
      if (!(score.back() <= maximum)) maximum = score.back();  // a NaN becomes the maximum
      largest_dot = std::max(largest_dot, std::abs(scale) * (std::abs(dot) + std::sqrt(squares)));
      largest_bias = std::max(largest_bias, std::abs(bias));
    }
    result.dot_terms.push_back(largest_dot);
    result.bias_terms.push_back(largest_bias);

    std::vector<Real> weights(static_cast<size_t>(k_len), Real{0});
    std::vector<Real> output(static_cast<size_t>(value_dim), Real{0});
    std::vector<Real> terms(static_cast<size_t>(value_dim), Real{0});
    Real lse = -kInfinity;
    if (!visible.empty()) {
      // Shifted by the maximum against overflow; a row of only -inf has nothing to shift by.
      const Real shift = maximum == -kInfinity ? Real{0} : maximum;
      Real sum = 0;
      for (const Real s : score) sum += std::exp(s - shift);
      lse = shift + std::log(sum);
      for (size_t x = 0; x < visible.size(); ++x) {
        const Real weight = std::exp(score[x] - shift) / sum;
        weights[static_cast<size_t>(visible[x])] = weight;
        for (int64_t c = 0; c < value_dim; ++c) {
          const Real v = value[static_cast<size_t>(visible[x] * value_dim + c)];
          output[static_cast<size_t>(c)] += weight * v;
          terms[static_cast<size_t>(c)] += weight * std::abs(v);
        }
      }
    }
    result.lse.push_back(lse);
    result.weights.insert(result.weights.end(), weights.begin(), weights.end());
    result.output.insert(result.output.end(), output.begin(), output.end());
    result.output_terms.insert(result.output_terms.end(), terms.begin(), terms.end());
  }
}

}  // namespace

double element(const TensorView& view, std::span<const int64_t> index) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * view.strides[i];
  switch (view.dtype) {
    case rapt::DType::f32:
      return static_cast<const float*>(view.data)[offset];
    case rapt::DType::f64:
      return static_cast<const double*>(view.data)[offset];
    case rapt::DType::i64:
      return static_cast<double>(static_cast<const int64_t*>(view.data)[offset]);
    case rapt::DType::boolean:
      return static_cast<const bool*>(view.data)[offset] ? 1 : 0;
    default:
      throw std::logic_error("the reference reads f32, f64, i64 and bool");
  }
}

std::vector<int64_t> leading_dimensions(const Problem& p) {
  const int rank = std::max({p.query.rank, p.key.rank, p.value.rank}) - 2;
  Index lengths(static_cast<size_t>(rank));
  for (size_t i = 0; i < lengths.size(); ++i) {
    const size_t from_right = lengths.size() - 1 - i;
    const int64_t q = leading_length(p.query, from_right);
    const int64_t k = leading_length(p.key, from_right);
    const int64_t v = leading_length(p.value, from_right);
    const int64_t length = q != 1 ? q : k != 1 ? k : v;
    lengths[i] = length;
    for (const int64_t own : {q, k, v}) {
      const bool divides = from_right == 0 && own > 0 && length % own == 0;
      if (own != length && own != 1 && !divides)
        throw std::logic_error("leading dimensions do not fit");
    }
  }
  return lengths;
}

template <class Real>
Result<Real> attention(const Problem& p) {
  Result<Real> result;
  result.leading = leading_dimensions(p);
  result.q_len = p.query.shape[p.query.rank - 2];
  result.k_len = p.key.shape[p.key.rank - 2];
  result.value_dim = p.value.shape[p.value.rank - 1];
  result.head_dim = p.query.shape[p.query.rank - 1];
  const Real scale =
      p.scale ? static_cast<Real>(*p.scale) : 1 / std::sqrt(static_cast<Real>(result.head_dim));

  int64_t heads = 1;
  for (const int64_t length : result.leading) heads *= length;
  for (int64_t flat = 0; flat < heads; ++flat) {
    Index leading(result.leading.size());
    int64_t rest = flat;
    for (size_t i = leading.size(); i-- > 0;) {
      leading[i] = rest % result.leading[i];
      rest /= result.leading[i];
    }
    attend(p, leading, scale, result);
  }
  return result;
}

template Result<float> attention(const Problem&);
template Result<double> attention(const Problem&);
template Result<long double> attention(const Problem&);

}  // namespace reference
