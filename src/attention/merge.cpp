// merge(): joins results over two disjoint sets of keys. The formula is in rapt/state.h.
#include <cmath>
#include <string>

#include "attention/call/problem.h"

namespace rapt {
namespace {

void check_pair(const char* name, const TensorView& a, const TensorView& b) {
  if (!a.defined() || !b.defined())
    throw Error(ErrorCode::argument, std::string("merge: both states need their ") + name);
  if (to_string(a.dims()) != to_string(b.dims()))
    throw Error(ErrorCode::shape, std::string("merge: ") + name + " " + to_string(a.dims()) +
                                      " and " + to_string(b.dims()) + " differ");
  if (a.dtype != b.dtype || (a.dtype != DType::f32 && a.dtype != DType::f64))
    throw Error(ErrorCode::dtype, std::string("merge: ") + name + " is " + name_of(a.dtype) +
                                      " and " + name_of(b.dtype) +
                                      "; expected f32 or f64, the same");
  if (!a.empty() && (!a.data || !b.data))
    throw Error(ErrorCode::argument, std::string("merge: null pointer in ") + name);
  if (a.rank < 1)
    throw Error(ErrorCode::shape, std::string("merge: ") + name + " has no rows; expected [..., n" +
                                      (name[0] == 'o' ? ", value_dim]" : "]"));
  extent_of(name, a);
  extent_of(name, b);
  if (overlaps_itself(a))
    throw Error(ErrorCode::overlap, std::string("merge: two elements of the first state's ") +
                                        name + " may share memory (strides)");
  if (a.read_only)
    throw Error(ErrorCode::argument,
                std::string("merge: the first state's ") + name + " is read-only");
}

void check_apart(const char* name, const TensorView& memory, const char* other_name,
                 const TensorView& other) {
  if (overlap(memory, other))
    throw Error(ErrorCode::overlap, std::string("merge: the first state's ") + name + " overlaps " +
                                        other_name + " in memory; give it memory of its own");
}

// Sets the strides of an empty output to 0: they mean nothing, and it may have no memory.
AttentionState without_idle_strides(AttentionState state) {
  if (state.output.empty())
    for (int64_t& stride : state.output.strides) stride = 0;
  return state;
}

// Merges one row: lse and output of `b` into those of `a`.
template <class E>
void merge_row(E* lse_a, const E* lse_b, E* a, int64_t step_a, const E* b, int64_t step_b,
               int64_t value_dim) {
  if (*lse_b == -INFINITY) return;  // `b` has no keys; -inf - -inf would be NaN
  if (*lse_a == -INFINITY) {
    for (int64_t d = 0; d < value_dim; ++d) a[d * step_a] = b[d * step_b];
    *lse_a = *lse_b;
    return;
  }
  const double x = *lse_a, y = *lse_b;
  const double high = x > y ? x : y;
  const double wa = std::exp(x - high), wb = std::exp(y - high), sum = wa + wb;
  for (int64_t d = 0; d < value_dim; ++d)
    a[d * step_a] = static_cast<E>((wa * a[d * step_a] + wb * b[d * step_b]) / sum);
  *lse_a = static_cast<E>(high + std::log(sum));
}

template <class E>
void merge_dim(int dim, E* lse_a, const E* lse_b, E* a, const E* b, const AttentionState& into,
               const AttentionState& from) {
  const int last = into.statistic.rank;
  if (dim == last) {
    merge_row(lse_a, lse_b, a, into.output.strides[last], b, from.output.strides[last],
              into.output.shape[last]);
    return;
  }
  for (int64_t i = 0; i < into.statistic.shape[dim]; ++i)
    merge_dim(dim + 1, lse_a + i * into.statistic.strides[dim],
              lse_b + i * from.statistic.strides[dim], a + i * into.output.strides[dim],
              b + i * from.output.strides[dim], into, from);
}

template <class E>
void merge_all(const AttentionState& into, const AttentionState& from) {
  merge_dim(0, static_cast<E*>(into.statistic.data), static_cast<const E*>(from.statistic.data),
            static_cast<E*>(into.output.data), static_cast<const E*>(from.output.data), into, from);
}

}  // namespace

void merge(const AttentionState& into, const AttentionState& from,
           const NormalizerRef& normalizer) {
  if (!normalizer.mergeable)
    throw Error(ErrorCode::unsupported,
                std::string("merge: results of ") + normalizer.declaration->name +
                    " over parts of the keys cannot be merged; compute it over all keys at once");
  check_pair("output", into.output, from.output);
  check_pair("statistic", into.statistic, from.statistic);
  const Shape rows = into.output.dims().first(static_cast<size_t>(into.output.rank) - 1);
  if (to_string(rows) != to_string(into.statistic.dims()))
    throw Error(ErrorCode::shape, "merge: statistic " + to_string(into.statistic.dims()) +
                                      " does not fit output " + to_string(into.output.dims()));
  if (into.statistic.dtype != into.output.dtype)
    throw Error(ErrorCode::dtype, "merge: output and statistic have different dtypes");
  check_apart("output", into.output, "the second's", from.output);
  check_apart("output", into.output, "the second's statistic", from.statistic);
  check_apart("output", into.output, "its statistic", into.statistic);
  check_apart("statistic", into.statistic, "the second's", from.statistic);
  check_apart("statistic", into.statistic, "the second's output", from.output);
  if (into.statistic.empty()) return;
  const AttentionState a = without_idle_strides(into), b = without_idle_strides(from);
  into.output.dtype == DType::f64 ? merge_all<double>(a, b) : merge_all<float>(a, b);
}

}  // namespace rapt
