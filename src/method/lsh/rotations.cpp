#include "method/lsh/rotations.h"

#include <cmath>
#include <numbers>

namespace rapt {
namespace {

// Uniform in (0, 1), never 0: the middle of one of 2^53 cells.
double uniform_of(uint64_t word) noexcept {
  return (static_cast<double>(word >> 11) + 0.5) * 0x1p-53;
}

struct TwoNormals {
  double first, second;
};

TwoNormals two_normals(uint64_t seed, uint64_t stream, int64_t block) noexcept {
  const PhiloxWords words = philox4x32_10(seed, stream, static_cast<uint64_t>(block));
  const double radius = std::sqrt(-2 * std::log(uniform_of(words.even)));
  const double angle = 2 * std::numbers::pi * uniform_of(words.odd);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

template <class E, class T>
void copy_rotations(const TensorView& given, E* rows) noexcept {
  const auto* data = static_cast<const T*>(given.data);
  const int64_t rounds = given.shape[0], dims = given.shape[1], columns = given.shape[2];
  for (int64_t r = 0; r < rounds; ++r)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t d = 0; d < dims; ++d)
        rows[(r * columns + c) * dims + d] = static_cast<E>(
            data[r * given.strides[0] + d * given.strides[1] + c * given.strides[2]]);
}

}  // namespace

template <class E>
void fill_rotations(const Lsh& lsh, const LshSizes& sizes, int64_t head_dim, int64_t head,
                    E* rows) noexcept {
  if (lsh.rotations.defined()) {
    if (lsh.rotations.dtype == DType::f64)
      copy_rotations<E, double>(lsh.rotations, rows);
    else
      copy_rotations<E, float>(lsh.rotations, rows);
    return;
  }
  const int64_t count = sizes.columns * head_dim;
  for (int64_t r = 0; r < sizes.rounds; ++r) {
    const auto stream = static_cast<uint64_t>(head * kMostLshRounds + r);
    E* const of_round = rows + r * count;
    for (int64_t i = 0; i < count; i += 2) {
      const TwoNormals two = two_normals(static_cast<uint64_t>(lsh.seed), stream, i / 2);
      of_round[i] = static_cast<E>(two.first);
      if (i + 1 < count) of_round[i + 1] = static_cast<E>(two.second);
    }
  }
}

template void fill_rotations(const Lsh&, const LshSizes&, int64_t, int64_t, float*) noexcept;
template void fill_rotations(const Lsh&, const LshSizes&, int64_t, int64_t, double*) noexcept;

}  // namespace rapt
