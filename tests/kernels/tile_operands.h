#pragma once
// Operands for tests of the tile kernels: rows in any layout, and weights, between guard pages.
// Also the error that products of parts may have.
#include <algorithm>
#include <array>
#include <cfloat>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include "hostile/guarded.h"
#include "kernels/tile_test.h"
#include "rapt/float16.h"

namespace rapt {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline int64_t padded(int64_t n) { return (n + 31) / 32 * 32; }

// An array with a guard page directly after or before it. Elements that nothing has written are
// NaN.
template <class T>
class Block {
 public:
  explicit Block(int64_t count, laws::Edge edge = laws::Edge::back)
      : bytes_(at(count) * sizeof(T)), memory_(std::make_unique<laws::Guarded>(bytes_, edge)) {}
  T* data() const { return reinterpret_cast<T*>(memory_->data()); }
  T& operator[](int64_t i) const { return data()[i]; }
  Image image() const {
    Image image(bytes_ / sizeof(uint32_t));
    if (bytes_ > 0) std::memcpy(image.data(), data(), bytes_);
    return image;
  }

 private:
  size_t bytes_;
  std::unique_ptr<laws::Guarded> memory_;
};

inline void append(Image& all, const Image& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// A number of either sign whose exponent is from `least` to `most`.
inline float power(Random& random, int64_t least, int64_t most) {
  const double x = std::ldexp(1 + random.uniform(), static_cast<int>(random.between(least, most)));
  return static_cast<float>(random.chance(0.5) ? x : -x);
}

// Rows of a storage type, with any strides.
class StoredRows {
 public:
  StoredRows(Random& random, DType stored, int64_t rows, int64_t row_dims)
      : dtype(stored), count(rows), dims(row_dims) {
    lay_out(random.between(0, 6));
    const int64_t last[] = {(count - 1) * row_stride, (dims - 1) * dim_stride};
    int64_t begin = 0, end = 1;
    for (const int64_t x : last) (x < 0 ? begin : end) += x;
    memory_ = std::make_unique<laws::Guarded>(at((end - begin) * size_of(dtype)),
                                              random.pick({laws::Edge::front, laws::Edge::back}));
    data = memory_->data() - begin * size_of(dtype);
  }

  void set(int64_t i, int64_t d, float x) {
    const uint32_t bits = dtype == DType::f32    ? std::bit_cast<uint32_t>(x)
                          : dtype == DType::bf16 ? BFloat16::from(x).bits
                                                 : Float16::from(x).bits;
    std::memcpy(place(i, d), &bits, at(size_of(dtype)));
  }
  float get(int64_t i, int64_t d) const {
    uint32_t bits = 0;
    std::memcpy(&bits, place(i, d), at(size_of(dtype)));
    const auto half = static_cast<uint16_t>(bits);
    if (dtype == DType::f32) return std::bit_cast<float>(bits);
    return dtype == DType::bf16 ? float{BFloat16{half}} : float{Float16{half}};
  }
  // Fills all elements with numbers of one random kind.
  void fill(Random& random) {
    const int64_t kind = random.between(0, 4);
    const bool half = dtype == DType::f16;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t d = 0; d < dims; ++d) set(i, d, drawn(random, kind, half));
  }
  void set_some(Random& random, int64_t how_many, std::initializer_list<float> numbers) {
    for (; how_many > 0; --how_many)
      set(random.between(0, count - 1), random.between(0, dims - 1), random.pick(numbers));
  }

  // Whether packing leaves the element out because it has no parts. bf16 elements are multiplied as
  // they are.
  bool left_out(int64_t i, int64_t d) const {
    const float x = std::fabs(get(i, d));
    return dtype != DType::bf16 && x != 0 && !(x >= 0x1p-48f && x <= 0x1p40f);
  }
  // The element as the product uses it: the instruction reads denormal bf16 as 0.
  double multiplied(int64_t i, int64_t d) const {
    const float x = get(i, d);
    return left_out(i, d) || std::fabs(x) < 0x1p-126f ? 0 : x;
  }

  const DType dtype;
  const int64_t count, dims;
  int64_t row_stride = 0, dim_stride = 1;
  const std::byte* data = nullptr;

 private:
  void lay_out(int64_t how) {
    row_stride = dims;
    if (how == 2) row_stride = dims + 3;
    if (how == 3) row_stride = 1, dim_stride = count;
    if (how == 4) row_stride = 2 * dims + 1, dim_stride = 2;
    if (how == 5) row_stride = -dims;
    if (how == 6) dim_stride = -1;
  }
  static float drawn(Random& random, int64_t kind, bool half) {
    if (random.chance(0.1)) return 0;
    switch (kind) {
      case 0:
        return half ? power(random, -12, 8) : power(random, -20, 20);
      case 1:
        return half ? power(random, 10, 14) : power(random, 40, 55);
      case 2:
        return half ? power(random, -24, -14) : power(random, -63, -50);
      default:
        return static_cast<float>(random.normal());
    }
  }
  std::byte* place(int64_t i, int64_t d) const {
    return const_cast<std::byte*>(data) + (i * row_stride + d * dim_stride) * size_of(dtype);
  }

  std::unique_ptr<laws::Guarded> memory_;
};

// Weights, or gradients of scores, [keys][queries].
inline Block<float> drawn_weights(Random& random, int64_t keys, int64_t queries) {
  Block<float> weights(keys * queries);
  const int64_t kind = random.between(0, 2);
  for (int64_t x = 0; x < keys * queries; ++x) {
    const double u = random.uniform();
    weights[x] = random.chance(0.1) ? 0
                 : kind == 0        ? static_cast<float>(u * u * u)
                 : kind == 1        ? static_cast<float>(random.normal())
                                    : power(random, -40, 8);
  }
  return weights;
}

// The parts of a number: the largest size of each part, and of the rest that no part holds,
// relative to a number of size 1.
struct Parts {
  std::array<double, 3> size;
  int count;
  double rest;
};
// Each part is rounded to nearest with 8 bits. With a single part the rest is 0, because the test
// compares with the rounded number.
inline constexpr Parts kRow1{{1}, 1, 0}, kRow2{{1, 0x1p-8}, 2, 0},
    kRow3{{1, 0x1p-8, 0x1p-17}, 3, 0};
inline constexpr Parts kShortRow2{{1, 0x1p-8}, 2, 0x1p-17};
// Each part is cut off after 8 bits, except the last, which is rounded.
inline constexpr Parts kWeights1{{1}, 1, 0}, kWeights3{{1, 0x1p-7, 0x1p-15}, 3, 0};
inline constexpr Parts kWeights2{{1, 0x1p-7}, 2, 0x1p-16};

// A product of A and B: the products of all parts whose ranks sum to less than `ranks`.
struct Product {
  Parts a, b;
  int ranks;

  // The largest error of a sum of `count` products whose absolute values sum to `size`. It has four
  // terms: the parts left out; within a step of 32, two chains of 16 additions and one addition
  // that joins them; the additions of steps, with those of the largest parts last; and products
  // flushed to 0.
  double error(int64_t count, double size, double largest) const {
    double without = a.rest + b.rest;
    int pairs = 0;
    for (int i = 0; i < a.count; ++i)
      for (int j = 0; j < b.count; ++j)
        if (i + j < ranks)
          ++pairs;
        else
          without += a.size[at(i)] * b.size[at(j)];
    const auto steps = static_cast<double>(padded(count) / 32);
    const auto chain = static_cast<double>(std::min<int64_t>(16, (count + 1) / 2));
    const double additions = 1.03 * (chain + pairs * (steps - 1) + 1.1);
    return (1.01 * without + 0x1p-24 * additions) * size +
           0x1p-126 * 34 * steps * pairs * std::max(largest, 1.0);
  }
};

// A sum of products in double, the sum of their absolute values, and the largest factor.
struct Sum {
  double value = 0, size = 0, largest = 0;
  int64_t count = 0;
  void add(double x, double y) {
    value += x * y, size += std::fabs(x * y), ++count;
    largest = std::max({largest, std::fabs(x), std::fabs(y)});
  }
};

// Describes how `result` differs. Returns "" if it is within `allowed`, or if neither `result` nor
// `expected` is a finite float.
inline std::string off(float result, double expected, double allowed) {
  if (!(std::fabs(expected) <= FLT_MAX) ? !std::isfinite(result)
                                        : std::fabs(double{result} - expected) <= allowed)
    return "";
  char text[120];
  std::snprintf(text, sizeof text, "%.9g instead of %.12g, which allows %g", double{result},
                expected, allowed);
  return text;
}

}  // namespace rapt
