#include "check/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "check/reference/philox.h"
#include "check/tensors/reference_matrix.h"

namespace check {
namespace {

using rapt::DType;
using rapt::TensorView;
using Index = std::vector<int64_t>;

// Length of the leading dimension that is `from_right` places left of the matrix; 1 if missing.
int64_t leading_length(const TensorView& t, size_t from_right) {
  const int dim = t.rank - 3 - static_cast<int>(from_right);
  return dim < 0 ? 1 : t.shape[dim];
}

template <class Real>
class Head {
 public:
  Head(const Problem& p, const Sizes& sizes, const RowTransform<Real>& query_change,
       const RowTransform<Real>& key_change, int64_t flat, const Index& leading)
      : p_(p),
        sizes_(sizes),
        query_change_(query_change),
        flat_(flat),
        leading_(leading),
        query_(matrix_of(p.query, leading, sizes.leading)),
        key_(
            values_of<Real>(matrix_of(p.key, leading, sizes.leading), sizes.k_len, sizes.head_dim)),
        value_(values_of<Real>(matrix_of(p.value, leading, sizes.leading), sizes.k_len,
                               sizes.value_dim)),
        relative_(p.relative, p.query.dtype, leading, sizes.leading),
        scale_(p.scale ? static_cast<Real>(*p.scale)
                       : 1 / std::sqrt(static_cast<Real>(sizes.head_dim))) {
    if (p.bias.defined()) bias_ = matrix_of(p.bias, leading, sizes.leading);
    if (p.rows.any()) {
      key_errors_.resize(key_.size());
      for (int64_t j = 0; j < sizes.k_len; ++j)
        key_change.change(j, &key_[first_of(j)], &key_errors_[first_of(j)]);
    }
    // Only the plain loop in the dtype itself rounds to 16 bits; the truth does not.
    rounds_ = std::is_same_v<Real, float>;
    for (const Real v : value_) value_sizes_.push_back(std::abs(v));
    for (int64_t c = 0; c < sizes.value_dim; ++c) {
      Real sum = 0;
      for (int64_t j = 0; j < sizes.k_len; ++j)
        if (const Real v = value_at(j, c); std::isfinite(v)) sum += std::abs(v);
      value_sum_.push_back(sum);
    }
    sum_of_values_ = value_sum_;
  }

  void attend(int64_t i, Row<Real>& row) {
    row.index = i;
    row.value_sizes = value_sizes_;
    row.value_sum = value_sum_;
    row.normalizer = of_length(p_.normalizer, p_.k_len_of ? p_.k_len_of(i) : sizes_.k_len);
    score(i, row);
    const auto k_len = static_cast<size_t>(sizes_.k_len);
    const auto value_dim = static_cast<size_t>(sizes_.value_dim);
    row.weights.assign(k_len, 0);
    row.scores.assign(k_len, 0);
    row.seen.assign(k_len, 0);
    row.kept.assign(k_len, 0);
    row.output.assign(value_dim, 0);
    row.output_squares.assign(value_dim, 0);
    row.entropy = row.score_mean = 0;
    weighed_ = std::visit([&](const auto& n) { return n.weigh(std::span<const Real>(score_)); },
                          row.normalizer);
    row.statistic = weighed_.statistic;
    row.slopes = weighed_.slopes, row.cut = weighed_.cut, row.condition = weighed_.condition;
    if (!bound_masks_.empty()) weigh(row);
  }

 private:
  static constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

  Real value_at(int64_t j, int64_t c) const {
    return value_[static_cast<size_t>(j * sizes_.value_dim + c)];
  }

  size_t first_of(int64_t key) const { return static_cast<size_t>(key * sizes_.head_dim); }

  // Computes the scores of the unmasked keys.
  void score(int64_t i, Row<Real>& row) {
    bound_masks_.clear();
    score_.clear();
    row.score_error = 0;
    query_row_.clear();
    for (int64_t d = 0; d < sizes_.head_dim; ++d)
      query_row_.push_back(static_cast<Real>(query_(i, d)));
    if (p_.rows.any()) {
      query_errors_.resize(query_row_.size());
      query_change_.change(i, query_row_.data(), query_errors_.data());
    }
    for (int64_t j = 0; j < sizes_.k_len; ++j) {
      if (p_.allowed && !p_.allowed(leading_, i, j)) continue;
      const Real bias = p_.bias.defined() ? static_cast<Real>(bias_(i, j)) : 0;
      if (bias == -kInfinity) continue;
      const Real* key = &key_[first_of(j)];
      const PairPlace place = place_of(p_, sizes_, leading_, i, j);
      PairProduct<Real> product = relative_.product(query_row_.data(), key, sizes_.head_dim, place);
      const double of_rows = p_.rows.any() ? row_error(key, &key_errors_[first_of(j)]) : 0;
      const bool jumps = of_rows > 0 && rapt::size_of(p_.query.dtype) == 2;
      if (!jumps) product.added += static_cast<Real>(of_rows);
      const Dual<Real> z = product_of(scale_, product, sizes_.head_dim, p_.left_out);
      const Dual<Real> s = score_of(z, bias, place);
      const Real last = p_.bias_first ? 0 : bias;
      bound_masks_.push_back(j);
      score_.push_back(s.value + last);
      double error = s.value_error + size(last);
      if (jumps) error += jump_of(z, s, of_rows, bias, place);
      row.score_error = std::max(row.score_error, error);
    }
  }

  Dual<Real> score_of(Dual<Real> z, Real bias, const PairPlace& place) const {
    if (p_.bias_first) z = z + Dual<Real>(bias);
    return p_.scores.empty() ? z : chain_of(p_.scores, z, place).score;
  }

  double row_error(const Real* key, const double* key_errors) const {
    return error_of_product(query_row_.data(), query_errors_.data(), key, key_errors,
                            sizes_.head_dim);
  }

  // The effect of rows that were rounded to another number on the score s = f(z); scores are
  // monotone in z. It counts twice, and may be so large that a weight changes by e^x - 1 of itself
  // and not by x.
  double jump_of(const Dual<Real>& z, const Dual<Real>& s, double of_rows, Real bias,
                 const PairPlace& place) const {
    constexpr double e = std::numeric_limits<float>::epsilon();
    const Real way = scale_ * static_cast<Real>(of_rows / 2 * e);
    double most = 0;
    for (const Real to : {z.value - way, z.value + way})
      most = std::max(most, size(score_of(to, bias, place).value - s.value));
    return std::expm1(2 * most) / e;
  }

  void weigh(Row<Real>& row) {
    const bool rounds_weights = rounds_ && p_.rounds_weights && !is_sparse(p_.normalizer);
    Real mean = 0;
    if (relative_.has(RelativeSpec::values)) value_sum_ = sum_of_values_;
    for (size_t x = 0; x < bound_masks_.size(); ++x) {
      const Real power = weighed_.powers[x], weight = power / weighed_.divisor;
      const auto j = static_cast<size_t>(bound_masks_[x]);
      row.weights[j] = weight;
      row.scores[j] = score_[x];
      row.seen[j] = 1;
      if (weight > 0) {
        row.entropy -= weight * std::log(weight);
        mean += weight * score_[x];
      }
      const auto dropout =
          dropout_factor<Real>(p_.dropout, p_.dropout_seed, flat_, row.index, bound_masks_[x]);
      row.kept[j] = dropout;
      const Real kept = dropout * weight;
      const Real factor = rounds_weights ? dropout * rounded(p_.query.dtype, power) : kept;
      for (int64_t c = 0; c < sizes_.value_dim; ++c) {
        const Real v = value_at(bound_masks_[x], c);
        row.output[static_cast<size_t>(c)] += factor * v;
        row.output_squares[static_cast<size_t>(c)] += kept * v * (kept * v);
      }
      if (relative_.has(RelativeSpec::values)) add_value_row(bound_masks_[x], factor, kept, row);
    }
    row.score_mean = std::abs(mean);
    for (Real& square : row.output_squares) square = std::sqrt(square);
    for (Real& x : row.output) {
      if (rounds_weights) x /= weighed_.divisor;
      if (rounds_) x = rounded(p_.output_dtype.value_or(p_.query.dtype), x);
    }
  }

  // Adds the pair's row of value_rows to the output, and to the sizes of its terms.
  void add_value_row(int64_t j, Real factor, Real kept, Row<Real>& row) {
    const Real* added = relative_.row(
        RelativeSpec::values, p_.relative.row(place_of(p_, sizes_, leading_, row.index, j)));
    for (int64_t c = 0; c < sizes_.value_dim; ++c) {
      const auto at = static_cast<size_t>(c);
      const Real v = added[c];
      row.output[at] += factor * v;
      row.output_squares[at] += kept * v * (kept * v);
      value_sizes_[static_cast<size_t>(j * sizes_.value_dim + c)] =
          std::abs(value_at(j, c)) + std::abs(v);
      if (std::isfinite(v)) value_sum_[at] += std::abs(v);
    }
  }

  const Problem& p_;
  const Sizes& sizes_;
  const RowTransform<Real>& query_change_;
  int64_t flat_;  // the head's index in the leading dimensions
  const Index& leading_;
  Matrix query_, bias_;             // [q_len, head_dim], [q_len, k_len]
  std::vector<Real> key_, value_;   // [k_len, head_dim], [k_len, value_dim]
  std::vector<double> key_errors_;  // [k_len, head_dim], of transformed keys
  RelativeRows<Real> relative_;
  Real scale_;
  bool rounds_ = false;
  std::vector<Real> sum_of_values_;  // [value_dim]: sum_j |value|
  // Of the current row, or of the head where there are no value_rows:
  std::vector<Real> value_sizes_, value_sum_;  // [k_len, value_dim], [value_dim]
  // Of the current row:
  std::vector<Real> query_row_;       // [head_dim]
  std::vector<double> query_errors_;  // [head_dim], of a transformed query
  std::vector<int64_t> bound_masks_;
  std::vector<Real> score_;  // of the unmasked keys
  Weighed<Real> weighed_;    // likewise
};

}  // namespace

PairPlace place_of(const Problem& p, const Sizes& sizes, std::span<const int64_t> leading,
                   int64_t i, int64_t j) {
  return p.placed ? p.placed(leading, i, j)
                  : PairPlace{leading, sizes.leading, i, j, sizes.q_len, sizes.k_len};
}

Sizes sizes_of(const Problem& p) {
  Sizes sizes;
  const int rank = std::max({p.query.rank, p.key.rank, p.value.rank}) - 2;
  sizes.leading.resize(static_cast<size_t>(rank));
  for (size_t i = 0; i < sizes.leading.size(); ++i) {
    const size_t from_right = sizes.leading.size() - 1 - i;
    const int64_t q = leading_length(p.query, from_right);
    const int64_t k = leading_length(p.key, from_right);
    const int64_t v = leading_length(p.value, from_right);
    const int64_t length = q != 1 ? q : k != 1 ? k : v;
    sizes.leading[i] = length;
    sizes.heads *= length;
    for (const int64_t own : {q, k, v}) {
      const bool divides = from_right == 0 && own > 0 && length % own == 0;
      if (own != length && own != 1 && !divides)
        throw std::logic_error("leading dimensions do not fit");
    }
  }
  sizes.q_len = p.query.shape[p.query.rank - 2];
  sizes.k_len = p.key.shape[p.key.rank - 2];
  sizes.value_dim = p.value.shape[p.value.rank - 1];
  sizes.head_dim = p.query.shape[p.query.rank - 1];
  return sizes;
}

template <class Real>
void for_each_row(const Problem& p, const Sample& sample,
                  const std::function<void(const Row<Real>&)>& visit) {
  const Sizes sizes = sizes_of(p);
  const auto heads = static_cast<int64_t>(sample.heads ? sample.heads->size() : sizes.heads);
  const auto rows = static_cast<int64_t>(sample.rows ? sample.rows->size() : sizes.q_len);
  const RowTransform<Real> of_query = query_change<Real>(p, sizes),
                           of_key = key_change<Real>(p, sizes);
  Row<Real> row;
  for (int64_t h = 0; h < heads; ++h) {
    row.head = sample.heads ? (*sample.heads)[static_cast<size_t>(h)] : h;
    const Index leading = leading_index(row.head, sizes.leading);
    Head<Real> head(p, sizes, of_query, of_key, row.head, leading);
    for (int64_t r = 0; r < rows; ++r) {
      head.attend(sample.rows ? (*sample.rows)[static_cast<size_t>(r)] : r, row);
      visit(row);
    }
  }
}

template <class Real>
Result<Real> attention(const Problem& p) {
  Result<Real> result;
  result.sizes = sizes_of(p);
  for_each_row<Real>(p, {}, [&](const Row<Real>& row) {
    result.output.insert(result.output.end(), row.output.begin(), row.output.end());
    result.weights.insert(result.weights.end(), row.weights.begin(), row.weights.end());
    result.lse.push_back(row.statistic);
  });
  return result;
}

#define RAPT_CHECK_INSTANTIATE(Real)                                              \
  template void for_each_row<Real>(const Problem&, const Sample&,                 \
                                   const std::function<void(const Row<Real>&)>&); \
  template Result<Real> attention(const Problem&);
RAPT_CHECK_INSTANTIATE(float)
RAPT_CHECK_INSTANTIATE(double)
RAPT_CHECK_INSTANTIATE(long double)
#undef RAPT_CHECK_INSTANTIATE

}  // namespace check
