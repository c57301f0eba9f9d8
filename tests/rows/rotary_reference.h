#pragma once
// Rotary embedding as the paper writes it, for tests: pairs of dimensions are complex numbers that
// are multiplied by e^(i m f). In long double, sharing no code with the library.
#include <cmath>
#include <complex>
#include <vector>

#include "check/tensors/arrays.h"

namespace laws {

using check::Dims;
using rapt::DType;
using rapt::Tensor;
using rapt::TensorView;

// A pair of dimensions that is rotated together.
struct TurnedPair {
  int64_t a, b;  // dimensions
  long double frequency;
  int axis = 0;
};

// Frequencies theta^(-2 i / dims) from the dimension `first` on.
inline std::vector<TurnedPair> turned_pairs(int64_t dims, bool interleaved, double theta,
                                            int64_t first = 0, int axis = 0) {
  std::vector<TurnedPair> pairs;
  for (int64_t i = 0; i < dims / 2; ++i) {
    const auto power = -2 * static_cast<long double>(i) / static_cast<long double>(dims);
    pairs.push_back({first + (interleaved ? 2 * i : i),
                     first + (interleaved ? 2 * i + 1 : i + dims / 2),
                     std::pow(static_cast<long double>(theta), power), axis});
  }
  return pairs;
}

// The rotated rows, and error bounds for a library that computes the angles in f64 and rotates in
// f32 (f64 rows: in f64).
struct Turned {
  std::vector<double> values, errors;  // row-major
};

// position(row index, axis): of a row, whose index has all dimensions but the last.
inline Turned turned(const TensorView& rows, const std::vector<TurnedPair>& pairs,
                     const std::function<int64_t(std::span<const int64_t>, int)>& position,
                     double magnitude = 1, bool inverse = false) {
  const int64_t dims = rows.shape[rows.rank - 1];
  // The unit roundoffs of the arithmetic and of the stored dtype.
  const double u = rows.dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  const double stored = rows.dtype == DType::bf16 ? 0x1p-8 : rows.dtype == DType::f16 ? 0x1p-11 : 0;
  const double smallest = rows.dtype == DType::f16 ? 0x1p-25 : 0;  // half a denormal number
  Turned result;
  result.values = check::values_of(rows);
  result.errors.assign(result.values.size(), 0);
  std::vector<int64_t> index;
  for (size_t row = 0; row * static_cast<size_t>(dims) < result.values.size(); ++row) {
    index.clear();
    auto left = static_cast<int64_t>(row);
    for (int i = rows.rank - 2; i >= 0; --i) {
      index.insert(index.begin(), left % rows.shape[i]);
      left /= rows.shape[i];
    }
    double* const x = result.values.data() + row * static_cast<size_t>(dims);
    double* const e = result.errors.data() + row * static_cast<size_t>(dims);
    for (const TurnedPair& pair : pairs) {
      const auto m = static_cast<long double>(position(index, pair.axis));
      const long double angle = (inverse ? -1 : 1) * m * pair.frequency;
      const std::complex<long double> before(x[pair.a], x[pair.b]);
      const std::complex<long double> after =
          before * std::polar(static_cast<long double>(magnitude), angle);
      // The cosine (sine), its product and the sum are rounded once each. In f64, a frequency has
      // the error of a power, whose exponent is rounded: e^(x (1 + u)), |x| up to ln theta, here at
      // most 14; an angle adds a rounding, and a complex product some more.
      const double of_angle = 0x1p-53 * (16 * std::fabs(static_cast<double>(angle)) + 16);
      const double size = std::fabs(x[pair.a]) + std::fabs(x[pair.b]);
      x[pair.a] = static_cast<double>(after.real()), x[pair.b] = static_cast<double>(after.imag());
      for (const int64_t d : {pair.a, pair.b})
        e[d] = magnitude * size * (3 * u + of_angle) + std::fabs(x[d]) * stored + smallest;
    }
  }
  return result;
}

inline testing::AssertionResult turned_within(const TensorView& got, const Turned& expected) {
  const std::vector<double> values = check::values_of(got);
  if (values.size() != expected.values.size()) return testing::AssertionFailure() << "shape";
  for (size_t i = 0; i < values.size(); ++i)
    if (!(std::fabs(values[i] - expected.values[i]) <= expected.errors[i]))
      return testing::AssertionFailure() << "element " << i << ": " << values[i] << ", expected "
                                         << expected.values[i] << " within " << expected.errors[i];
  return testing::AssertionSuccess();
}

}  // namespace laws
