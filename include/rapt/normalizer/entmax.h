#pragma once
// Alpha-entmax: the family that contains softmax at alpha = 1, entmax15 at 1.5 and sparsemax at 2,
//
//   weight_j = [(alpha - 1) s_j - tau]_+^(1 / (alpha - 1))     with tau such that they sum to 1
//
//   alphas  [..., heads], f32 or f64 (head_numbers.h): one alpha per head, which can be learned
//
// The larger alpha, the fewer weights are not 0 (row_threshold.h, also for the gradient of alpha).
// The formula has no value at alpha = 1: use softmax. Near 1 the power magnifies rounding errors by
// 1 / (alpha - 1), so alpha is at least 1.01. Above 2 a weight has an infinite slope where it
// becomes 0, so gradients are unbounded; therefore alpha is at most 2.
// Source: Peters, Niculae & Martins 2019, arXiv:1905.05702, equation 11; alphas: Correia, Niculae &
// Martins 2019, arXiv:1909.00015.
#include "rapt/head_numbers.h"
#include "rapt/normalizer/row_threshold.h"

namespace rapt {

struct Entmax : RowThreshold<Entmax> {
  double alpha = kNotGiven;  // 1.01 to 2; if not given: `alphas`, or else 1.5
  TensorView alphas = {};    // each 1.01 to 2; not together with alpha

  static const Declaration kDeclaration;
  static constexpr bool kLearned = true;

  Entmax() = default;
  explicit Entmax(double of_all_heads) : alpha(of_all_heads) {}
  explicit Entmax(const TensorView& of_heads) : alphas(of_heads) {}

  // Throws Error(argument) if alpha and alphas are both given.
  void check() const;

  template <class V>
  double alpha_of(const Head& head) const noexcept {
    if (alphas.defined()) return number_of_head(alphas, head);
    return alpha == alpha ? alpha : 1.5;
  }
  template <class V, class Visit>
  void power(const Head& head, const Visit& visit) const noexcept {
    const double q = 1 / (alpha_of<V>(head) - 1);
    const int whole = static_cast<int>(__builtin_floor(q + 0.5));
    const bool is_whole = q - whole < kRounding && whole - q < kRounding;
    if (!is_whole || whole > kWholePowers)
      visit(PowerWeights<V>{q});
    else if (whole == 1)
      visit(LinearWeights<V>{});
    else if (whole == 2)
      visit(SquareWeights<V>{});
    else
      visit(WholePowerWeights<V>{whole});
  }

 private:
  // Whole powers up to this are computed by products. kRounding bounds the error of q: rounding
  // alpha (2^-53) and the division change q by at most (q^2 + q) 2^-53.
  static constexpr int kWholePowers = 8;
  static constexpr double kRounding = kWholePowers * (kWholePowers + 1) * 0x1p-53;
};

}  // namespace rapt
