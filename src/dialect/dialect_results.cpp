// Results as a project would have returned them.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "attention/call/problem.h"
#include "rapt/dialect.h"

namespace rapt {
namespace {

void check_result(const char* name, const TensorView& view) {
  if (!view.defined())
    throw Error(ErrorCode::argument, std::string("translate_results: no ") + name);
  if (view.read_only || (!view.empty() && !view.data))
    throw Error(ErrorCode::argument,
                std::string("translate_results: ") + name + " is read-only or has no memory");
  extent_of(name, view);
}

// The bytes of one element that is NaN.
void write_nan(DType dtype, void* to) {
  const float nan = std::nanf("");
  if (dtype == DType::f32) std::memcpy(to, &nan, sizeof nan);
  if (const double wide = nan; dtype == DType::f64) std::memcpy(to, &wide, sizeof wide);
  if (const BFloat16 b = BFloat16::from(nan); dtype == DType::bf16) std::memcpy(to, &b, sizeof b);
  if (const Float16 h = Float16::from(nan); dtype == DType::f16) std::memcpy(to, &h, sizeof h);
}

// What an output row without keys becomes, [..., 1, value_dim] for every head: the mean of all
// values is attention with a scale of 0.
Tensor empty_rows(EmptyRow kind, const TensorView& output, const TensorView& value) {
  const int rank = output.rank - 2;
  std::vector<int64_t> dims(output.shape, output.shape + rank), idle(output.rank, 0);
  dims.push_back(1);
  if (kind == EmptyRow::nan) {
    dims.push_back(output.shape[rank + 1]);
    Tensor rows(output.dtype, dims);
    for (int64_t i = 0; i < rows.count(); ++i)
      write_nan(output.dtype, static_cast<char*>(rows.data()) + i * size_of(output.dtype));
    return rows;
  }
  if (!value.defined() || value.rank < 2)
    throw Error(ErrorCode::argument, "translate_results: the mean of values needs the value");
  dims.push_back(1);
  double zero = 0;  // in any dtype
  const int64_t keys[] = {value.shape[value.rank - 2], 1}, none[] = {0, 0};
  AttentionOptions options;
  options.output_dtype = output.dtype;
  return scaled_dot_product_attention(TensorView(&zero, value.dtype, dims, idle, true),
                                      TensorView(&zero, value.dtype, keys, none, true), value,
                                      options)
      .output;
}

template <class E>
class Translation {
 public:
  Translation(const Dialect& d, const AttentionState& state, const TensorView& rows)
      : d_(d), lse_(state.statistic), output_(state.output), rows_(rows) {}

  void dim(int at, int64_t lse, int64_t output, int64_t row) {
    if (at == lse_.rank) return one(lse, output, row);
    const bool query = at + 1 == lse_.rank;  // all queries of a head share a row
    for (int64_t i = 0; i < lse_.shape[at]; ++i)
      dim(at + 1, lse + i * lse_.strides[at], output + i * output_.strides[at],
          query || !rows_.defined() ? row : row + i * rows_.strides[at]);
  }

 private:
  void one(int64_t lse_at, int64_t output, int64_t row) {
    constexpr double kLog2OfE = 1.4426950408889634074;
    E& lse = static_cast<E*>(lse_.data)[lse_at];
    if (lse != -INFINITY) {
      if (d_.lse == LseBase::two) lse = static_cast<E>(lse * kLog2OfE);
      return;
    }
    if (d_.lse != LseBase::none) lse = static_cast<E>(d_.empty_lse);
    if (!rows_.defined()) return;
    const int last = lse_.rank;
    const int64_t size = size_of(output_.dtype);
    for (int64_t i = 0; i < output_.shape[last]; ++i)
      std::memcpy(static_cast<char*>(output_.data) + (output + i * output_.strides[last]) * size,
                  static_cast<const char*>(rows_.data) + (row + i * rows_.strides[last]) * size,
                  static_cast<size_t>(size));
  }

  const Dialect& d_;
  const TensorView &lse_, &output_, &rows_;
};

}  // namespace

void translate_results(const Dialect& dialect, const AttentionState& state,
                       const TensorView& value) {
  const TensorView &lse = state.statistic, &output = state.output;
  check_result("statistic", lse);
  check_result("output", output);
  if (lse.dtype != DType::f32 && lse.dtype != DType::f64)
    throw Error(ErrorCode::dtype, std::string("translate_results: the statistic is ") +
                                      name_of(lse.dtype) + "; expected f32 or f64");
  if (lse.rank < 1 || output.rank != lse.rank + 1 ||
      to_string(lse.dims()) != to_string(output.dims().first(static_cast<size_t>(lse.rank))))
    throw Error(ErrorCode::shape, "translate_results: statistic " + to_string(lse.dims()) +
                                      " and output " + to_string(output.dims()) +
                                      "; expected [..., q_len] and [..., q_len, value_dim]");
  const Tensor rows =
      dialect.empty == EmptyRow::zero ? Tensor() : empty_rows(dialect.empty, output, value);
  const TensorView to = rows.defined() && !output.empty() ? rows.view() : TensorView();
  if (lse.dtype == DType::f32)
    Translation<float>(dialect, state, to).dim(0, 0, 0, 0);
  else
    Translation<double>(dialect, state, to).dim(0, 0, 0, 0);
}

}  // namespace rapt
