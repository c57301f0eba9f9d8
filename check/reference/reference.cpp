#include "check/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "check/reference/captured.h"
#include "check/reference/philox.h"

namespace check {
namespace {

using Index = std::vector<int64_t>;

// Length of the leading dimension that is `from_right` places left of the matrix; 1 if missing.
int64_t leading_length(const rapt::TensorView& t, size_t from_right) {
  const int dim = t.rank - 3 - static_cast<int>(from_right);
  return dim < 0 ? 1 : t.shape[dim];
}

template <class Real>
class Forward {
 public:
  explicit Forward(const Problem& p)
      : p_(p), sizes_(sizes_of(p)), scale_(scale_of<Real>(p, sizes_)) {}

  const Sizes& sizes() const { return sizes_; }

  void enter(int64_t index) {
    const Index leading = leading_index(index, sizes_.leading);
    const auto values = [&](const rapt::TensorView& t, int64_t rows, int64_t columns) {
      return values_of<Real>(matrix_of(t, leading, sizes_.leading), rows, columns);
    };
    head_ = {index,
             sizes_.head_dim,
             sizes_.value_dim,
             leading,
             values(p_.query, sizes_.q_len, sizes_.head_dim),
             values(p_.key, sizes_.k_len, sizes_.head_dim),
             values(p_.value, sizes_.k_len, sizes_.value_dim),
             p_.bias.defined() ? matrix_of(p_.bias, leading, sizes_.leading) : Matrix{},
             RelativeRows<Real>(p_.relative, p_.query.dtype, leading, sizes_.leading)};
    if (!p_.rows.any()) return;
    const auto of_query = query_transform<Real>(p_, sizes_, leading),
               of_key = key_transform<Real>(p_, sizes_, leading);
    for (int64_t i = 0; i < sizes_.q_len; ++i)
      of_query.change(i, head_.query.data() + i * sizes_.head_dim);
    for (int64_t j = 0; j < sizes_.k_len; ++j)
      of_key.change(j, head_.key.data() + j * sizes_.head_dim);
  }

  const Row<Real>& attend(int64_t i) {
    row_.head = head_.index, row_.index = i, row_.inputs = &head_;
    row_.normalizer =
        of_length(p_.normalizer, p_.k_len_of ? p_.k_len_of(head_.leading, i) : sizes_.k_len);
    row_.weights.assign(static_cast<size_t>(sizes_.k_len), 0);
    row_.output.assign(static_cast<size_t>(sizes_.value_dim), 0);
    row_.entropy = 0;
    find_pairs(i);
    std::vector<Real> scores;
    for (const Pair<Real>& pair : row_.pairs) scores.push_back(pair.score);
    row_.weighed = std::visit([&](const auto& n) { return n.weigh(std::span<const Real>(scores)); },
                              row_.normalizer);
    if (!row_.pairs.empty()) weigh_values();
    return row_;
  }

 private:
  // The scores of the keys that query i attends to.
  void find_pairs(int64_t i) {
    row_.pairs.clear();
    for (int64_t j = 0; j < sizes_.k_len; ++j) {
      if (p_.allowed && !p_.allowed(head_.leading, i, j)) continue;
      Pair<Real> pair{j, place_of(p_, sizes_, head_.leading, i, j)};
      if (p_.bias.defined()) pair.bias = static_cast<Real>(head_.bias(i, j));
      if (pair.bias == -kInfinityOf<Real>) continue;
      if (p_.relative.distances > 0) pair.table_row = p_.relative.row(pair.place);
      pair.dot = head_.relative.product(head_.query_row(i), head_.key_row(j), sizes_.head_dim,
                                        pair.table_row);
      const Real first = p_.bias_first ? pair.bias : 0, last = p_.bias_first ? 0 : pair.bias;
      pair.chain = chain_of(p_.scores, scale_ * pair.dot + first, pair.place);
      pair.score = pair.chain.score + last;
      row_.pairs.push_back(std::move(pair));
    }
  }

  void weigh_values() {
    // Only the plain loop in the dtype itself rounds to 16 bits; the truth does not.
    const bool rounds = std::is_same_v<Real, float>;
    const bool rounds_weights = rounds && p_.rounds_weights && !is_sparse(p_.normalizer);
    const Weighed<Real>& weighed = row_.weighed;
    for (size_t x = 0; x < row_.pairs.size(); ++x) {
      Pair<Real>& pair = row_.pairs[x];
      const Real power = weighed.powers[x];
      pair.weight = row_.weights[static_cast<size_t>(pair.key)] = power / weighed.divisor;
      if (pair.weight != 0) row_.entropy -= pair.weight * std::log(pair.weight);
      pair.kept = dropout_factor<Real>(p_.dropout, p_.dropout_seed, row_.head, row_.index,
                                       p_.drops_by_place ? pair.place.j : pair.key);
      if (pair.weight == 0 && is_sparse(p_.normalizer)) continue;  // its value is not read
      const Real factor = pair.kept * (rounds_weights          ? rounded(p_.query.dtype, power)
                                       : rounds && p_.in_parts ? sum_of_parts(pair.weight)
                                                               : pair.weight);
      const bool has_rows = head_.relative.has(RelativeSpec::values);
      for (int64_t c = 0; c < sizes_.value_dim; ++c) {
        Real& output = row_.output[static_cast<size_t>(c)];
        output += factor * head_.value_row(pair.key)[c];
        if (has_rows)
          output += factor * head_.relative.number(RelativeSpec::values, pair.table_row, c);
      }
    }
    for (Real& x : row_.output) {
      if (rounds_weights) x /= weighed.divisor;
      if (rounds) x = rounded(p_.output_dtype.value_or(p_.query.dtype), x);
    }
  }

  const Problem& p_;
  const Sizes sizes_;
  const Real scale_;
  HeadInputs<Real> head_;
  Row<Real> row_;
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
    const int64_t q = leading_length(p.query, from_right), k = leading_length(p.key, from_right),
                  v = leading_length(p.value, from_right);
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
Result<Real> attention(const Problem& p, const Captures& captures, const Sample& sample,
                       const std::function<void(const Row<Real>&)>& also) {
  if (p.features) throw std::logic_error("feature_loops.h computes problems with features");
  Forward<Real> forward(p);
  const Sizes& sizes = forward.sizes();
  Result<Real> result;
  result.sizes = sizes;
  result.received.resize(count_of_received(captures, sizes));
  result.map.resize(count_of_map(captures, sizes));
  const auto heads = static_cast<int64_t>(sample.heads ? sample.heads->size() : sizes.heads);
  const auto rows = static_cast<int64_t>(sample.rows ? sample.rows->size() : sizes.q_len);
  for (int64_t h = 0; h < heads; ++h) {
    forward.enter(sample.heads ? (*sample.heads)[static_cast<size_t>(h)] : h);
    for (int64_t r = 0; r < rows; ++r) {
      const Row<Real>& row =
          forward.attend(sample.rows ? (*sample.rows)[static_cast<size_t>(r)] : r);
      add_row(row, captures, result);
      if (also) also(row);
    }
  }
  return result;
}

template Result<float> attention(const Problem&, const Captures&, const Sample&,
                                 const std::function<void(const Row<float>&)>&);
template Result<double> attention(const Problem&, const Captures&, const Sample&,
                                  const std::function<void(const Row<double>&)>&);
template Result<long double> attention(const Problem&, const Captures&, const Sample&,
                                       const std::function<void(const Row<long double>&)>&);

}  // namespace check
