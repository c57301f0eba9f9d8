#pragma once
// Row transforms of query or key (row_spec.h), and the gradients of such rows. Cosine attention
// divides a row x by its length:
//
//   y = x / max(|x|, epsilon)         dx = (dy - y (y . dy)) / |x|, or dy / epsilon if |x| is at
//                                     most epsilon
//
// Then rotary embedding turns every pair (a, b) of dimensions of a row at position m:
//
//   (x_a, x_b) -> magnitude (x_a cos m f_i - x_b sin m f_i, x_b cos m f_i + x_a sin m f_i)
//   f_i = theta^(-2 i / dims)         gradients turn by the opposite angle, times the magnitude
//
// The result is rounded once to the tensor's dtype (16 bits: from f32), even where the rest is
// exact: this rounding is part of the call's definition. Gradients are rounded at the end.
// A gradient of 0 stays 0, whatever its row holds.
// Sources: Su et al. 2021, arXiv:2104.09864; Henry et al. 2020, arXiv:2010.04245.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "check/spec/row_spec.h"
#include "check/tensors/reference_matrix.h"

namespace check {

// A number of the sequence that row i of the head at `leading` belongs to.
using OfSequence = std::function<int64_t(std::span<const int64_t> leading, int64_t i)>;

// The transform of the rows of one tensor, query or key.
template <class Real>
class RowTransform {
 public:
  // `positions`: of the rows for the rotation; null: no rotation. `place`: the position of row i of
  // the head at `leading` in its sequence; empty: i. It must outlive the transform.
  RowTransform(const RowSpec& spec, const CountedRows* positions, rapt::DType dtype,
               int64_t head_dim, const OfSequence& place, std::span<const int64_t> leading)
      : cosine_(spec.cosine),
        dtype_(dtype),
        head_dim_(static_cast<size_t>(head_dim)),
        place_(place),
        leading_(leading) {
    if (!positions) return;
    const RotarySpec& rotary = *spec.rotary;
    positions_ = *positions, magnitude_ = rotary.magnitude;
    const size_t dims = rotary.dims > 0 ? static_cast<size_t>(rotary.dims) : head_dim_;
    const size_t half = dims / 2;
    for (size_t i = 0; i < half; ++i) {
      const Wide power = -2 * static_cast<Wide>(i) / static_cast<Wide>(dims);
      const Wide f = std::pow(static_cast<Wide>(rotary.theta), power);
      pairs_.push_back(rotary.interleaved ? Pair{2 * i, 2 * i + 1, f} : Pair{i, i + half, f});
    }
  }

  // Transforms row i.
  void change(int64_t i, Real* row) const {
    if (cosine_) {
      const Real by = std::max(length_of(row), epsilon());
      for (size_t d = 0; d < head_dim_; ++d) row[d] /= by;
    }
    turn(i, row, 1);
    for (size_t d = 0; d < head_dim_; ++d) row[d] = rounded(dtype_, row[d]);
  }

  // Turns the gradient of transformed row i into that of the original row `given`.
  void transform_back(int64_t i, const Real* given, Real* gradient) const {
    turn(i, gradient, -1);
    if (!cosine_ || stays_zero(given, gradient)) return;
    const Real length = length_of(given), by = std::max(length, epsilon());
    Real along = 0;
    for (size_t d = 0; d < head_dim_; ++d) along += given[d] / by * gradient[d];
    for (size_t d = 0; d < head_dim_; ++d) {
      if (length > epsilon()) gradient[d] -= given[d] / by * along;
      gradient[d] /= by;
    }
  }

 protected:
  // Of angles.
  using Wide = std::conditional_t<std::is_same_v<Real, float>, double, Real>;

  struct Pair {
    size_t a, b;
    Wide frequency;
  };
  struct Turn {
    Real cos, sin;  // times the magnitude
  };

  int64_t position_of(int64_t row) const {
    return positions_.start + positions_.step * (place_ ? place_(leading_, row) : row);
  }
  Turn turn_of(int64_t row, const Pair& pair) const {
    const Wide angle = static_cast<Wide>(position_of(row)) * pair.frequency;
    const auto magnitude = static_cast<Wide>(magnitude_);
    return {static_cast<Real>(magnitude * std::cos(angle)),
            static_cast<Real>(magnitude * std::sin(angle))};
  }
  Real epsilon() const { return static_cast<Real>(*cosine_); }
  // Elements are scaled to about 1, so that their squares fit f32.
  int exponent_of(const Real* row) const {
    Real most = 0;
    for (size_t d = 0; d < head_dim_; ++d) most = std::max(most, std::abs(row[d]));
    return most > 0 && std::isfinite(most) ? std::ilogb(most) : 0;
  }
  Real length_of(const Real* row) const {
    const int exponent = exponent_of(row);
    Real squares = 0;
    for (size_t d = 0; d < head_dim_; ++d) {
      const Real scaled = std::scalbn(row[d], -exponent);
      squares += scaled * scaled;
    }
    return std::scalbn(std::sqrt(squares), exponent);
  }
  // Whether it is the gradient of a row that no query attends to, which is 0 whatever its elements.
  bool stays_zero(const Real* given, const Real* gradient) const {
    const auto is_finite = [](Real x) { return std::isfinite(x); };
    const auto is_zero = [](Real x) { return x == 0; };
    return std::all_of(gradient, gradient + head_dim_, is_zero) &&
           !std::all_of(given, given + head_dim_, is_finite);
  }

  std::optional<double> cosine_;  // epsilon
  rapt::DType dtype_ = rapt::DType::f32;
  size_t head_dim_ = 0;
  double magnitude_ = 1;
  std::vector<Pair> pairs_;  // empty: no rotation

 private:
  void turn(int64_t i, Real* x, Real sign) const {
    for (const Pair& pair : pairs_) {
      const auto [cos, sin] = turn_of(i, pair);
      const Real a = x[pair.a], b = x[pair.b], s = sign * sin;
      x[pair.a] = a * cos - b * s;
      x[pair.b] = b * cos + a * s;
    }
  }

  CountedRows positions_;
  const OfSequence& place_;
  std::span<const int64_t> leading_;
};

}  // namespace check
