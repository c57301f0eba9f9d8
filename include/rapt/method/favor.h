#pragma once
// FAVOR+: softmax attention by random features, at a cost that is linear in the number of tokens.
//
//   exp(scale q . k) = C E[phi(q) . phi(k)]       x = sqrt(scale) q, y = sqrt(scale) k
//   output_i = sum_j w_ij v_j / sum_j w_ij        w_ij = phi(q_i) . phi(k_j)
//
//   kind          features phi(x) of the rows w of a projection [features, head_dim]
//   positive      exp(B w . x + A |w|^2 - |x|^2 / 2)                           positive.h
//   hyperbolic    exp(A |w|^2 - |x|^2 / 2) [exp(B w . x), exp(-B w . x)]       hyperbolic.h
//   trigonometric exp(|x|^2 / 2) [cos(w . x), sin(w . x)]                      trigonometric.h
//
// A = exponent (0: FAVOR+), B = sqrt(1 - 4 A). C = (1 - 4 A)^(head_dim / 2) / features makes the
// estimate unbiased; hyperbolic: half of it.
//
// The statistic is the logarithm of the estimated sum of e^score, ln(C sum_j w_ij). Weights of
// trigonometric features may be negative: where their sum is not above 0 the lse is NaN or -inf,
// and the output is what the formula gives.
//
// With positive and hyperbolic features, the sum of weights of a query is computed relative to the
// product of its largest feature and the largest one of its keys. A sum that is less than 2^-126 of
// this product in f32 (2^-1022 in f64) has the output NaN or infinite, and where it becomes 0 the
// lse -inf. It cannot be so small where all exponents are within 21 of 0 (176 in f64).
//
// A negative scale gives the query the factor -sqrt(|scale|). Features have no epsilon, and later
// keys change no bit of what earlier queries get. The backward pass needs the projection of the
// forward pass: the same seed, or the same tensor.
//
// A sequence can be continued: `final_state` is written with the sums over all keys, and a call
// with it as `initial_state` continues behind them, at a cost that does not depend on their number.
// The first element of a state's last row is the power of two of its sums, -max / 4 in the state of
// no keys, where max is the largest number of the dtype. So a tensor of zeros is not the state of
// no keys: leave `initial_state` out. Gradients are those of a whole sequence: the backward pass
// rejects both states.
//
// The error does not shrink below that of the mean of values unless |scale| |q + k|^2 is small
// against ln(features): docs/methods/favor.md.
//
// Source: Choromanski et al. 2021, arXiv:2009.14794; exponent: Likhosherstov et al. 2022,
// arXiv:2205.15317 (FAVOR++).
#include "rapt/method/method.h"
#include "rapt/tensor.h"

namespace rapt {

enum class FavorKind : uint8_t { positive, hyperbolic, trigonometric };
inline constexpr const char* kFavorKindNames[] = {"positive", "hyperbolic", "trigonometric"};

// How the rows of a projection are drawn.
enum class ProjectionRows : uint8_t {
  orthogonal,   // in blocks of head_dim rows; unbiased, with a smaller variance
  independent,  // N(0, 1)
};
inline constexpr const char* kProjectionRowsNames[] = {"orthogonal", "independent"};

class Favor final : public Method {
 public:
  int64_t features =
      256;  // rows of the projection; hyperbolic and trigonometric: two features each
  FavorKind kind = FavorKind::positive;
  ProjectionRows rows = ProjectionRows::orthogonal;
  int64_t seed = 0;            // of the projection, which all heads share
  double exponent = 0;         // A of FAVOR++, in [-64, 0.1249]; 0: FAVOR+
  TensorView projection = {};  // [features, head_dim], f32 or f64; absent: drawn from the seed
  TensorView initial_state =
      {};                       // [..., features of the kind + 1, value_dim + 1], f32 (f64 for f64)
  TensorView final_state = {};  // the same; written

  static const Declaration kDeclaration;
  static const MethodScope kScope;

  const Declaration& declaration() const noexcept override { return kDeclaration; }
  const MethodScope& scope() const noexcept override { return kScope; }
  void check(const MethodCall& call) const override;
  MethodPlan plan(const MethodCall& call) const override;
  void forward(const MethodCall& call, const MethodResults& results,
               std::byte* scratch) const override;
  MethodPlan plan_backward(const MethodCall& call, const WantedGradients& wanted) const override;
  void backward(const MethodCall& call, const MethodGradients& gradients,
                std::byte* scratch) const override;
};

// The projection that favor draws, [features, head_dim] of f64. Throws Error(argument) for features
// outside [1, 2^20] or a head_dim below 1, std::bad_alloc.
Tensor favor_projection(int64_t features, int64_t head_dim, uint64_t seed = 0,
                        ProjectionRows rows = ProjectionRows::orthogonal);

}  // namespace rapt
