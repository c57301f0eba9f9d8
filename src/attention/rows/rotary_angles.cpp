// Angles of a rotary embedding: runs of positions, one complex product per angle.
#include "attention/rows/rotary_angles.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "rapt/float16.h"

namespace rapt {
namespace {

constexpr int kLowBits = 6;
constexpr int64_t kLow = int64_t{1} << kLowBits;  // positions of the table

double number_at(const PerRow& from, int64_t element) noexcept {
  switch (from.dtype) {
    case DType::f64:
      return static_cast<const double*>(from.data)[element];
    case DType::bf16:
      return static_cast<const BFloat16*>(from.data)[element];
    case DType::f16:
      return static_cast<const Float16*>(from.data)[element];
    default:
      return static_cast<const float*>(from.data)[element];
  }
}

// Reads the positions of `count` rows on one axis.
void read_positions(const RowPositions& from, const int64_t* index, int64_t axis, int64_t first_row,
                    Positions at, int64_t* positions) noexcept {
  if (!from.values.data) {
    for (int64_t k = 0; k < at.count; ++k) positions[k] = from.start + from.step * at[k];
    return;
  }
  const auto* values = static_cast<const int64_t*>(from.values.data) +
                       from.values.offset_of(index) + axis * from.values.own_stride;
  for (int64_t k = 0; k < at.count; ++k)
    positions[k] = values[(first_row + k * at.step) * from.values.row_stride];
}

}  // namespace

// Rows whose positions share their high part, and whose low parts are `step` apart.
struct RotaryAngles::Run {
  int64_t first, count;
  int64_t high, low, step;

  static int split(const int64_t* positions, int64_t count, Run* runs) noexcept {
    int found = 0;
    for (int64_t i = 0; i < count;) {
      Run run{i, 1, positions[i] >> kLowBits, positions[i] & (kLow - 1), 1};
      const auto near = [&](int64_t k) {
        return k < count && positions[k] >> kLowBits == run.high;
      };
      if (near(i + 1)) run.step = positions[i + 1] - positions[i];
      // Checks neighbours only if they are less than 64 apart, because the difference of others
      // might overflow.
      for (int64_t k = i + 1; near(k) && positions[k] - positions[k - 1] == run.step; ++k)
        ++run.count;
      i += run.count;
      runs[found++] = run;
    }
    return found;
  }
};

size_t RotaryAngles::bytes_for(int64_t pairs) noexcept {
  return static_cast<size_t>(pairs) *
         (sizeof(DimPair) + sizeof(int64_t) + sizeof(double) + 2 * kLow * sizeof(double));
}

RotaryAngles::RotaryAngles(int64_t pairs, std::byte* memory) noexcept : pairs_(pairs) {
  dims_ = reinterpret_cast<DimPair*>(memory);
  axis_ = reinterpret_cast<int64_t*>(dims_ + pairs);
  frequency_ = reinterpret_cast<double*>(axis_ + pairs);
  low_cos_ = frequency_ + pairs;
  low_sin_ = low_cos_ + kLow * pairs;
}

RotaryAngles::RotaryAngles(const Rotary& rotary, int64_t head_dim, int64_t pairs,
                           std::byte* memory) noexcept
    : RotaryAngles(pairs, memory) {
  const double magnitude = rotary_magnitude(rotary);
  for (int64_t i = 0; i < pairs; ++i) {
    const RotaryPair pair = pair_of(rotary, head_dim, i);
    dims_[i] = pair.dims, axis_[i] = pair.axis, frequency_[i] = pair.frequency;
    double *const cos = low_cos_ + i * kLow, *const sin = low_sin_ + i * kLow;
    // Each power of two rotates all entries so far: seven sines instead of 64.
    cos[0] = magnitude, sin[0] = 0;
    for (int64_t half = 1; half < kLow; half *= 2) {
      const double angle = static_cast<double>(half) * pair.frequency;
      const double c = std::cos(angle), s = std::sin(angle);
      for (int64_t k = 0; k < half; ++k) {
        cos[half + k] = cos[k] * c - sin[k] * s;
        sin[half + k] = sin[k] * c + cos[k] * s;
      }
    }
  }
}

template <class E>
void RotaryAngles::fill(const RowPositions& positions, const int64_t* index, int64_t first_row,
                        Positions at, bool inverse, int64_t padded, E* cos_t,
                        E* sin_t) const noexcept {
  if (positions.cos_cache.data)
    return look_up(positions, index, first_row, at, inverse, padded, cos_t, sin_t);
  const double sign = inverse ? -1 : 1;
  int64_t of_rows[kMostTileRows];
  Run runs[kMostTileRows];
  int64_t axis = -1;
  int run_count = 0;
  for (int64_t i = 0; i < pairs_; ++i, cos_t += padded, sin_t += padded) {
    if (axis_[i] != axis) {
      axis = axis_[i];
      read_positions(positions, index, axis, first_row, at, of_rows);
      run_count = Run::split(of_rows, at.count, runs);
    }
    double high_cos = 1, high_sin = 0;
    int64_t high = 0;
    for (int r = 0; r < run_count; ++r) {
      const Run& run = runs[r];
      if (run.high != high) {
        high = run.high;
        const double angle = static_cast<double>(high * kLow) * frequency_[i];
        high_cos = std::cos(angle), high_sin = std::sin(angle);
      }
      const double* const low_cos = low_cos_ + i * kLow + run.low;
      const double* const low_sin = low_sin_ + i * kLow + run.low;
      const double signed_cos = sign * high_cos, signed_sin = sign * high_sin;
      E *const cos = cos_t + run.first, *const sin = sin_t + run.first;
      if (run.step == 1) {  // a loop that compilers vectorise
        for (int64_t k = 0; k < run.count; ++k) {
          cos[k] = static_cast<E>(high_cos * low_cos[k] - high_sin * low_sin[k]);
          sin[k] = static_cast<E>(signed_sin * low_cos[k] + signed_cos * low_sin[k]);
        }
        continue;
      }
      for (int64_t k = 0; k < run.count; ++k) {
        const double c = low_cos[k * run.step], s = low_sin[k * run.step];
        cos[k] = static_cast<E>(high_cos * c - high_sin * s);
        sin[k] = static_cast<E>(signed_sin * c + signed_cos * s);
      }
    }
    std::fill(cos_t + at.count, cos_t + padded, E(0));
    std::fill(sin_t + at.count, sin_t + padded, E(0));
  }
}

template <class E>
void RotaryAngles::look_up(const RowPositions& positions, const int64_t* index, int64_t first_row,
                           Positions at, bool inverse, int64_t padded, E* cos_t,
                           E* sin_t) const noexcept {
  int64_t of_rows[kMostTileRows];
  read_positions(positions, index, 0, first_row, at, of_rows);
  const auto read = [&](const PerRow& cache, double sign, E* to) {
    const int64_t begin = cache.offset_of(index);
    for (int64_t i = 0; i < pairs_; ++i, to += padded) {
      for (int64_t k = 0; k < at.count; ++k)
        to[k] = static_cast<E>(
            sign * number_at(cache, begin + of_rows[k] * cache.row_stride + i * cache.own_stride));
      std::fill(to + at.count, to + padded, E(0));
    }
  };
  read(positions.cos_cache, 1, cos_t);
  read(positions.sin_cache, inverse ? -1 : 1, sin_t);
}

template void RotaryAngles::fill(const RowPositions&, const int64_t*, int64_t, Positions, bool,
                                 int64_t, float*, float*) const noexcept;
template void RotaryAngles::fill(const RowPositions&, const int64_t*, int64_t, Positions, bool,
                                 int64_t, double*, double*) const noexcept;

}  // namespace rapt
