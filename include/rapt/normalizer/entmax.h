#pragma once
// Alpha-entmax: the family that has softmax at alpha = 1, entmax15 at 1.5 and sparsemax at 2,
//
//   weight_j = [(alpha - 1) s_j - tau]_+^(1 / (alpha - 1))     with tau such that they sum to 1
//
// The larger alpha, the fewer weights are not 0 (row_threshold.h). At 1 the formula has no meaning:
// that is softmax, by its own name. Near 1 the power magnifies roundings by 1 / (alpha - 1); so
// alpha is at least 1.01. Beyond 2 a weight rises infinitely fast where it begins, and gradients
// have no bound; so it is at most 2.
// Source: Peters, Niculae & Martins 2019, arXiv:1905.05702, equation 11.
#include "rapt/normalizer/row_threshold.h"

namespace rapt {

struct Entmax : RowThreshold<Entmax> {
  double alpha = 1.5;  // 1.01 to 2

  static const Declaration kDeclaration;

  Entmax() = default;
  explicit Entmax(double a) : alpha(a) {}

  template <class V>
  double alpha_as() const noexcept {
    return alpha;
  }
  template <class V, class Visit>
  void power(const Visit& visit) const noexcept {
    const double q = 1 / (alpha - 1);
    const int whole = static_cast<int>(q + 0.5);
    if (alpha == 2)
      visit(LinearWeights<V>{});
    else if (alpha == 1.5)
      visit(SquareWeights<V>{});
    else if (whole <= kWholePowers && q - whole < kRounding && whole - q < kRounding)
      visit(WholePowerWeights<V>{whole});
    else
      visit(PowerWeights<V>{q});
  }

 private:
  // Powers that are made by products; and what the division that gives them may be off.
  static constexpr int kWholePowers = 8;
  static constexpr double kRounding = 1e-12;
};

}  // namespace rapt
