// Projections and states in the memory of a call.
#include "method/linear/linear_layout.h"

#include "method/linear/projection.h"

namespace rapt {
namespace {

double element(const TensorView& view, int64_t at) noexcept {
  return view.dtype == DType::f64 ? static_cast<const double*>(view.data)[at]
                                  : static_cast<double>(static_cast<const float*>(view.data)[at]);
}

template <class E>
E* matrix_of_states(const TensorView& states, const Problem& p, int64_t flat) noexcept {
  int64_t index[kMaxRank], at = 0;
  p.index_of(flat, index);
  for (int i = 0; i < p.leading_rank; ++i) at += index[i] * states.strides[i];
  return static_cast<E*>(states.data) + at;
}

}  // namespace

template <class E>
void prepare_projection(const LinearLayout<E>& layout, std::byte* scratch, LinearCall<E>& call) {
  if (!call.map.projects) return;
  const LinearModel& m = call.model;
  const int64_t rows = m.inputs, dims = call.p.head_dim;
  double* const w = layout.drawn.in(scratch);
  if (m.projection.defined())
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t d = 0; d < dims; ++d)
        w[i * dims + d] =
            element(m.projection, i * m.projection.strides[0] + d * m.projection.strides[1]);
  else
    make_projection(rows, dims, m.seed, m.orthogonal, w);
  E* const projection = layout.projection.in(scratch);
  const double factor = std::sqrt(1 - 4 * m.exponent);
  for (int64_t i = 0; i < rows * dims; ++i) projection[i] = static_cast<E>(factor * w[i]);
  call.projection = projection;
  if (m.exponent == 0) return;
  E* const offsets = layout.offsets.in(scratch);
  for (int64_t i = 0; i < rows; ++i) {
    double square = 0;
    for (int64_t d = 0; d < dims; ++d) square += w[i * dims + d] * w[i * dims + d];
    offsets[i] = static_cast<E>(m.exponent * square);
  }
  call.offsets = offsets;
}

template <class E>
void load_state(const TensorView& states, const LinearCall<E>& call, int64_t flat,
                ChunkSums<E>& sums) noexcept {
  const E* const from = matrix_of_states<E>(states, call.p, flat);
  const int64_t rows = call.model.features, dims = call.p.value_dim;
  const int64_t row = states.strides[states.rank - 2], column = states.strides[states.rank - 1];
  const LinearState<E> to = sums.state(0);
  const E power = from[rows * row];
  if (!std::isfinite(power)) {  // NaN must show, and comparisons of powers would drop it
    std::fill_n(to.sums, rows * dims, std::numeric_limits<E>::quiet_NaN());
    std::fill_n(to.totals, rows, std::numeric_limits<E>::quiet_NaN());
    sums.set_power(0, E(0));
    return;
  }
  for (int64_t f = 0; f < rows; ++f) {
    for (int64_t d = 0; d < dims; ++d) to.sums[f * dims + d] = from[f * row + d * column];
    to.totals[f] = from[f * row + dims * column];
  }
  sums.set_power(0, power);
}

template <class E>
void store_state(const ChunkSums<E>& sums, const LinearCall<E>& call, int64_t flat,
                 const TensorView& states) noexcept {
  E* const to = matrix_of_states<E>(states, call.p, flat);
  const int64_t rows = call.model.features, dims = call.p.value_dim;
  const int64_t row = states.strides[states.rank - 2], column = states.strides[states.rank - 1];
  const LinearState<E> from = sums.state(0);
  for (int64_t f = 0; f < rows; ++f) {
    for (int64_t d = 0; d < dims; ++d) to[f * row + d * column] = from.sums[f * dims + d];
    to[f * row + dims * column] = from.totals[f];
  }
  for (int64_t d = 0; d <= dims; ++d) to[rows * row + d * column] = d == 0 ? from.power : E(0);
}

template void prepare_projection(const LinearLayout<float>&, std::byte*, LinearCall<float>&);
template void prepare_projection(const LinearLayout<double>&, std::byte*, LinearCall<double>&);
template void load_state(const TensorView&, const LinearCall<float>&, int64_t,
                         ChunkSums<float>&) noexcept;
template void load_state(const TensorView&, const LinearCall<double>&, int64_t,
                         ChunkSums<double>&) noexcept;
template void store_state(const ChunkSums<float>&, const LinearCall<float>&, int64_t,
                          const TensorView&) noexcept;
template void store_state(const ChunkSums<double>&, const LinearCall<double>&, int64_t,
                          const TensorView&) noexcept;

}  // namespace rapt
