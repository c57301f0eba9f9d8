// Moves the coefficients of exp2_minimax.py by a few units in the last place, at random, and keeps
// what lowers the largest error of the float32 evaluation in exp2() of src/kernels/simd/: 1.05 ->
// 0.88 ulp. Prints the coefficients, highest first.
//
//   g++ -O3 -std=c++20 -march=native -ffp-contract=off dev/exp2_round.cpp -o exp2_round &&
//   ./exp2_round
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr int kDegree = 6;
constexpr int kHalf = 1 << 23;  // multiples of 2^-24 in [-1/2, 1/2]: kHalf on either side of 0
constexpr int kSparse = 16;     // the search looks at every 16th of them
constexpr int kTrials = 40000;
using Coefficients = std::array<float, kDegree + 1>;  // lowest first

struct Point {
  float f;
  double exact;    // 2^f
  double per_ulp;  // 1 / ulp of the float32 result
};

std::vector<Point> points(int step) {
  std::vector<Point> all;
  for (int k = -kHalf; k <= kHalf; k += step) {
    const double f = k * 0x1p-24, exact = std::exp2(f);
    all.push_back({static_cast<float>(f), exact, std::ldexp(1.0, 23 - std::ilogb(exact))});
  }
  return all;
}

// Largest error in ulp; stops early once above `enough`.
double worst_ulp(const Coefficients& c, const std::vector<Point>& all, double enough) {
  double worst = 0;
  for (const Point& point : all) {
    float p = c[kDegree];
    for (int i = kDegree - 1; i >= 0; --i) p = std::fma(p, point.f, c[static_cast<size_t>(i)]);
    const double error = std::fabs(p - point.exact) * point.per_ulp;
    if (error <= worst) continue;
    worst = error;
    if (worst > enough) break;
  }
  return worst;
}

}  // namespace

int main() {
  Coefficients best = {1.0f,
                       6.931472057e-01f,
                       2.402264689e-01f,
                       5.550328779e-02f,
                       9.618488898e-03f,
                       1.339993079e-03f,
                       1.534582738e-04f};
  // How far each may move, in ulp: the less a coefficient weighs, the farther.
  constexpr int kReach[] = {0, 3, 8, 40, 200, 2000, 20000};
  const std::vector<Point> sparse = points(kSparse), all = points(1);
  std::printf("before: %.4f ulp\n", worst_ulp(best, all, HUGE_VAL));
  double lowest = worst_ulp(best, sparse, HUGE_VAL);
  std::mt19937 random(1);
  for (int trial = 0; trial < kTrials; ++trial) {
    Coefficients moved = best;
    for (uint32_t moves = 1 + random() % 3; moves > 0; --moves) {
      const size_t i = 1 + random() % kDegree;
      const int by =
          static_cast<int>(random() % static_cast<uint32_t>(2 * kReach[i] + 1)) - kReach[i];
      moved[i] = std::bit_cast<float>(std::bit_cast<int32_t>(moved[i]) + by);
    }
    const double error = worst_ulp(moved, sparse, lowest);
    if (error < lowest) lowest = error, best = moved;
  }
  std::printf("after: %.4f ulp\n", worst_ulp(best, all, HUGE_VAL));
  for (int i = kDegree; i >= 0; --i) std::printf("  %.9e\n", best[static_cast<size_t>(i)]);
}
