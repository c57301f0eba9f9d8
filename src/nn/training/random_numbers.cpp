#include "nn/training/random_numbers.h"

#include <array>
#include <bit>
#include <cmath>

#include "base/philox.h"

namespace rapt::nn {
namespace {

double uniform_of(uint64_t word) {
  return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;  // 2^52 + 1/2 has 53 bits
}
double symmetric_of(uint64_t word) { return 2 * uniform_of(word) - 1; }

template <size_t N>
double horner(const std::array<double, N>& terms, double x) {  // highest first
  double sum = terms[0];
  for (size_t i = 1; i < N; ++i) sum = sum * x + terms[i];
  return sum;
}

// The natural logarithm of a normal number, as kernels/simd/log.h computes it.
double log_of(double x) {
  constexpr std::array kTerms = {1.4795948721279323e-01, 1.5314050654898917e-01,
                                 1.8183564321848131e-01, 2.2222198573274082e-01,
                                 2.8571428742386629e-01, 3.9999999999414682e-01,
                                 6.6666666666667340e-01};
  constexpr double kHigh = 6.9314718055994529e-01, kLow = 2.3190468138462996e-17;  // of ln 2
  const auto bits = std::bit_cast<uint64_t>(x);
  double k = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFF) | uint64_t{1023} << 52);
  if (m > 1.4142135623730951) m *= 0.5, k += 1;
  const double f = m - 1, s = f / (2 + f), z = s * s;
  const double less = s * (f - z * horner(kTerms, z)) - k * kLow;
  return k * kHigh + (f - less);
}

// Wichura's rational functions: of 0.425^2 - q^2 about the median, of sqrt(-ln p) beyond.
double central(double q) {
  constexpr std::array kAbove = {
      2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
      13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608};
  constexpr std::array kBelow = {
      5226.495278852854561,  28729.085735721942674, 39307.89580009271061,  21213.794301586595867,
      5394.1960214247511077, 687.1870074920579083,  42.313330701600911252, 1.0};
  const double r = 0.180625 - q * q;
  return horner(kAbove, r) * q / horner(kBelow, r);
}
double near_tail(double r) {
  constexpr std::array kAbove = {7.7454501427834140764e-4, .0227238449892691845833,
                                 .24178072517745061177,    1.27045825245236838258,
                                 3.64784832476320460504,   5.7694972214606914055,
                                 4.6303378461565452959,    1.42343711074968357734};
  constexpr std::array kBelow = {1.05075007164441684324e-9, 5.475938084995344946e-4,
                                 .0151986665636164571966,   .14810397642748007459,
                                 .68976733498510000455,     1.6763848301838038494,
                                 2.05319162663775882187,    1.0};
  r -= 1.6;
  return horner(kAbove, r) / horner(kBelow, r);
}
double far_tail(double r) {
  constexpr std::array kAbove = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                                 .0012426609473880784386,   .026532189526576123093,
                                 .29656057182850489123,     1.7848265399172913358,
                                 5.4637849111641143699,     6.6579046435011037772};
  constexpr std::array kBelow = {2.04426310338993978564e-15, 1.4215117583164458887e-7,
                                 1.8463183175100546818e-5,   7.868691311456132591e-4,
                                 .0148753612908506148525,    .13692988092273580531,
                                 .59983220655588793769,      1.0};
  r -= 5;
  return horner(kAbove, r) / horner(kBelow, r);
}

template <class Function>
void for_words(uint64_t seed, uint64_t stream, int64_t begin, int64_t end, const Function& f) {
  for (int64_t i = begin; i < end;) {
    const PhiloxWords two = philox4x32_10(seed, stream, static_cast<uint64_t>(i) / 2);
    if (i % 2 == 0) f(i++, two.even);
    if (i < end && i % 2 == 1) f(i++, two.odd);
  }
}

}  // namespace

double normal_quantile(double u) noexcept {
  const double q = u - 0.5;
  if (q >= -0.425 && q <= 0.425) return central(q);
  const double r = std::sqrt(-log_of(q < 0 ? u : 1 - u));
  const double x = r <= 5 ? near_tail(r) : far_tail(r);
  return q < 0 ? -x : x;
}

void draw_symmetric(uint64_t seed, uint64_t stream, int64_t begin, int64_t end,
                    double* to) noexcept {
  for_words(seed, stream, begin, end,
            [&](int64_t i, uint64_t word) { to[i - begin] = symmetric_of(word); });
}
void draw_normal(uint64_t seed, uint64_t stream, int64_t begin, int64_t end, double* to) noexcept {
  for_words(seed, stream, begin, end,
            [&](int64_t i, uint64_t word) { to[i - begin] = normal_quantile(uniform_of(word)); });
}

}  // namespace rapt::nn
