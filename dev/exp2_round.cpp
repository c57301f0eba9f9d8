// Moves the coefficients that "minimax.py exp2 7" (float) and "12" (double) print by a few units in
// the last place, at random, and keeps what lowers the largest error of the evaluation in
// src/kernels/simd/polynomials.h. Prints the error before and after, in ulp, and the coefficients,
// lowest first.
//
//   g++ -O3 -std=c++20 -march=native -ffp-contract=off dev/exp2_round.cpp -o exp2_round &&
//   ./exp2_round float && ./exp2_round double
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace {

constexpr int kTrials = 40000;

template <class E>
using Wide = std::conditional_t<std::is_same_v<E, float>, double, long double>;

// Where each search starts (float: from a Remez exchange on a coarser grid than today's), and how
// far every coefficient may move, in ulp: the less a coefficient weighs, the farther. The constant
// stays 1, because 2^0 = 1 exactly.
template <class E>
struct Start;
template <>
struct Start<float> {
  static constexpr std::array<float, 7> kCoefficients = {1.0f,
                                                         6.931472057e-01f,
                                                         2.402264689e-01f,
                                                         5.550328779e-02f,
                                                         9.618488898e-03f,
                                                         1.339993079e-03f,
                                                         1.534582738e-04f};
  static constexpr std::array<int, 7> kReach = {0, 3, 8, 40, 200, 2000, 20000};
  static constexpr int kSparse = 1 << 20, kDense = 1 << 24;  // points; all there are
};
template <>
struct Start<double> {
  static constexpr std::array<double, 12> kCoefficients = {1.0,
                                                           6.9314718055994529e-01,
                                                           2.4022650695910155e-01,
                                                           5.5504108664819925e-02,
                                                           9.6181291075883354e-03,
                                                           1.3333558146789997e-03,
                                                           1.5403530462514169e-04,
                                                           1.5252733489915565e-05,
                                                           1.3215433089793280e-06,
                                                           1.0178198052425636e-07,
                                                           7.0741055942198256e-09,
                                                           4.4352780250666082e-10};
  static constexpr std::array<int, 12> kReach = {0, 2, 4, 40, 100, 400, 0, 0, 0, 0, 0, 0};
  static constexpr int kSparse = 1 << 18, kDense = 1 << 24;  // points, of 2^53
};

template <class E>
struct Point {
  E f;
  Wide<E> exact;    // 2^f
  Wide<E> per_ulp;  // 1 / ulp of the result
};

// `count` points, evenly over [-1/2, 1/2].
template <class E>
std::vector<Point<E>> points(int count) {
  std::vector<Point<E>> all;
  for (int k = 0; k <= count; ++k) {
    // For double the low bits of f must not all be 0.
    const double even = static_cast<double>(k) / count - 0.5;
    const E f = static_cast<E>(sizeof(E) == 4 ? even : even * 0.99999999912345);
    const Wide<E> exact = std::exp2(static_cast<Wide<E>>(f));
    all.push_back(
        {f, exact, std::ldexp(Wide<E>(1), std::numeric_limits<E>::digits - 1 - std::ilogb(exact))});
  }
  return all;
}

// Largest error in ulp; stops early once above `enough`.
template <class E, size_t kTerms>
Wide<E> worst_ulp(const std::array<E, kTerms>& c, const std::vector<Point<E>>& all,
                  Wide<E> enough) {
  Wide<E> worst = 0;
  for (const Point<E>& point : all) {
    E p = c[kTerms - 1];
    for (size_t i = kTerms - 1; i-- > 0;) p = std::fma(p, point.f, c[i]);
    const Wide<E> error = std::fabs(p - point.exact) * point.per_ulp;
    if (error <= worst) continue;
    worst = error;
    if (worst > enough) break;
  }
  return worst;
}

template <class E>
void search() {
  constexpr Wide<E> kNever = std::numeric_limits<Wide<E>>::infinity();
  auto best = Start<E>::kCoefficients;
  const std::vector<Point<E>> sparse = points<E>(Start<E>::kSparse);
  const std::vector<Point<E>> dense = points<E>(Start<E>::kDense);
  std::printf("before: %.4f ulp\n", static_cast<double>(worst_ulp(best, dense, kNever)));
  Wide<E> lowest = worst_ulp(best, sparse, kNever);
  std::mt19937 random(1);
  for (int trial = 0; trial < kTrials; ++trial) {
    auto moved = best;
    for (uint32_t moves = 1 + random() % 3; moves > 0; --moves) {
      const size_t i = 1 + random() % (moved.size() - 1);
      const int reach = Start<E>::kReach[i];
      const int by = static_cast<int>(random() % static_cast<uint32_t>(2 * reach + 1)) - reach;
      const E ulp = std::ldexp(E(1), std::ilogb(moved[i]) + 1 - std::numeric_limits<E>::digits);
      moved[i] += static_cast<E>(by) * ulp;
    }
    const Wide<E> error = worst_ulp(moved, sparse, lowest);
    if (error < lowest) lowest = error, best = moved;
  }
  std::printf("after: %.4f ulp\n", static_cast<double>(worst_ulp(best, dense, kNever)));
  for (const E c : best)
    std::printf("  %.*e\n", std::numeric_limits<E>::max_digits10 - 1, static_cast<double>(c));
}

}  // namespace

int main(int argc, char** argv) {
  const char* type = argc == 2 ? argv[1] : "";
  if (!std::strcmp(type, "float"))
    search<float>();
  else if (!std::strcmp(type, "double"))
    search<double>();
  else
    return std::fprintf(stderr, "usage: exp2_round float|double\n"), 2;
}
