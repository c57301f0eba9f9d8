// Random projections. Normal numbers by Box and Muller from Philox. Orthogonal blocks are the Q of
// a QR decomposition with a positive diagonal of R, without which Q is not uniform; Gram-Schmidt,
// done twice, gives that Q. Each row gets the length of another normal vector: a chi with `dims`
// degrees of freedom, so that a row alone is N(0, 1).
//
// Source: Choromanski et al. 2021, arXiv:2009.14794, section 2.4; Mezzadri 2007,
// arXiv:math-ph/0609050.
#include "method/linear/projection.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace rapt {
namespace {

constexpr uint64_t kDirections = 0, kLengths = 1;  // streams of random numbers

// The normal numbers of a row, from those that `stream` counts.
template <class Visit>
void visit_normals(uint64_t seed, uint64_t stream, int64_t row, int64_t dims, const Visit& visit) {
  const int64_t pairs = (dims + 1) / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    const PhiloxWords words = philox4x32_10(seed, stream, static_cast<uint64_t>(row * pairs + i));
    const double u = static_cast<double>((words.even >> 11) + 1) * 0x1p-53;  // in (0, 1]
    const double angle = 2 * std::numbers::pi * static_cast<double>(words.odd >> 11) * 0x1p-53;
    const double radius = std::sqrt(-2 * std::log(u));
    visit(2 * i, radius * std::cos(angle));
    if (2 * i + 1 < dims) visit(2 * i + 1, radius * std::sin(angle));
  }
}

double dot(const double* a, const double* b, int64_t n) noexcept {
  double sums[8] = {};  // chains that a compiler can put into vectors
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void scale_row(double* row, double factor, int64_t dims) noexcept {
  for (int64_t i = 0; i < dims; ++i) row[i] *= factor;
}

// Makes the rows of a block orthonormal. R's diagonal is the rows' remaining length: positive.
void make_orthonormal(double* block, int64_t rows, int64_t dims) noexcept {
  for (int64_t i = 0; i < rows; ++i) {
    double* const row = block + i * dims;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        const double* const other = block + j * dims;
        const double along = dot(row, other, dims);
        for (int64_t k = 0; k < dims; ++k) row[k] -= along * other[k];
      }
    scale_row(row, 1 / std::sqrt(dot(row, row, dims)), dims);
  }
}

}  // namespace

void make_projection(int64_t rows, int64_t dims, uint64_t seed, bool orthogonal,
                     double* w) noexcept {
  for (int64_t i = 0; i < rows; ++i)
    visit_normals(seed, kDirections, i, dims, [&](int64_t k, double x) { w[i * dims + k] = x; });
  if (!orthogonal || dims == 0) return;
  for (int64_t first = 0; first < rows; first += dims)
    make_orthonormal(w + first * dims, std::min(dims, rows - first), dims);
  for (int64_t i = 0; i < rows; ++i) {
    double square = 0;
    visit_normals(seed, kLengths, i, dims, [&](int64_t, double x) { square += x * x; });
    scale_row(w + i * dims, std::sqrt(square), dims);
  }
}

}  // namespace rapt
