// text_features: hashed character n-grams plus sinusoidal positions; the formula is in the header.
#include "rapt/io/text_features.h"

#include <cmath>

#include "io/text/utf8.h"

namespace rapt {
namespace {

constexpr int kLongestGram = 4;
constexpr char kBegin = '\x02', kEnd = '\x03';  // control characters: split_words yields none

uint64_t hash(std::string_view bytes) {
  uint64_t h = 14695981039346656037u;  // FNV-1a, 64 bits
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;  // fmix64
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 33;
}

// row [dim] += the word's n-grams. Sums of small integers are exact in any order.
void add_grams(std::string_view word, std::span<double> row) {
  std::string marked(1, kBegin);
  for (const char c : word) marked += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  marked += kEnd;
  std::vector<size_t> starts;  // of each code point, and the end
  for (size_t at = 0; at < marked.size();) {
    starts.push_back(at);
    at += decode_utf8(std::string_view(marked).substr(at)).bytes;
  }
  starts.push_back(marked.size());
  const size_t points = starts.size() - 1;
  for (size_t n = 1; n <= kLongestGram; ++n) {
    for (size_t i = 0; i + n <= points; ++i) {
      if (n == 1 && (i == 0 || i + 1 == points)) continue;  // a mark alone
      const std::string_view gram(marked.data() + starts[i], starts[i + n] - starts[i]);
      const uint64_t h = hash(gram);
      row[h % row.size()] += h >> 63 ? -1.0 : 1.0;
    }
  }
}

// pow, sin and cos of the C library differ in their last bit between machines. The functions below
// use only operations that IEEE 754 rounds exactly. They are within 1e-15 of the true value for the
// arguments used here (exponents in [-14, 0], angles up to 1e6).

// 2^x for x <= 0: 2^floor(x) * e^(fraction * ln 2) by its Taylor series.
double exp2_of(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  const double whole = std::floor(x);
  const double f = (x - whole) * kLn2;
  double sum = 1;
  for (int k = 22; k > 0; --k) sum = 1 + sum * f / k;  // ln(2)^23 / 23! < 1e-26
  return std::ldexp(sum, static_cast<int>(whole));
}

struct SineCosine {
  double sine, cosine;
};

// Reduces the angle to |r| <= pi / 4. pi / 2 is a sum of two numbers, the first of which has 33
// bits, so that its product with the number of quarter turns is exact. Then both Taylor series.
SineCosine sine_cosine(double angle) {
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kHalfPiHigh = 1.57079632673412561417;
  constexpr double kHalfPiLow = 6.07710050650619224932e-11;
  const double quarters = std::floor(angle * kTwoOverPi + 0.5);
  const double r = (angle - quarters * kHalfPiHigh) - quarters * kHalfPiLow;
  const double r2 = r * r;
  double sine = 1, cosine = 1;
  for (int k = 20; k > 0; k -= 2) {  // (pi / 4)^21 / 21! < 1e-21
    sine = 1 - sine * r2 / (k * (k + 1));
    cosine = 1 - cosine * r2 / (k * (k - 1));
  }
  sine *= r;
  switch (static_cast<int64_t>(quarters) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace

Tensor text_features(std::span<const std::string> words, int64_t dim) {
  if (dim < 1) {
    throw Error(ErrorCode::argument,
                "text_features: expected dim of 1 or more, got " + std::to_string(dim));
  }
  const auto rows = std::ssize(words);
  Tensor features(DType::f32, {rows, dim});
  const std::span<float> x = features.values<float>();  // [rows, dim]

  constexpr double kLog2Of10000 = 13.287712379549449392;
  std::vector<double> frequency((dim + 1) / 2);  // 10000^(-2k / dim)
  for (int64_t k = 0; k < std::ssize(frequency); ++k) {
    frequency[k] = exp2_of(-kLog2Of10000 * static_cast<double>(2 * k) / static_cast<double>(dim));
  }
  const double position_weight = kPositionWeight * std::sqrt(2.0 / static_cast<double>(dim));

  std::vector<double> grams(dim);
  for (int64_t i = 0; i < rows; ++i) {
    std::fill(grams.begin(), grams.end(), 0.0);
    add_grams(words[i], grams);
    double square = 0;
    for (const double g : grams) square += g * g;
    // All n-grams may cancel when dim is tiny; then only the position is left.
    const double length = square > 0 ? std::sqrt(square) : 1.0;
    float* row = &x[i * dim];
    for (int64_t c = 0; c < dim; c += 2) {
      const SineCosine p = sine_cosine(static_cast<double>(i) * frequency[c / 2]);
      row[c] = static_cast<float>(grams[c] / length + position_weight * p.sine);
      if (c + 1 == dim) break;
      row[c + 1] = static_cast<float>(grams[c + 1] / length + position_weight * p.cosine);
    }
  }
  return features;
}

}  // namespace rapt
