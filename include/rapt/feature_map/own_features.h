#pragma once
// A feature map of your own, from two functions of one token: phi(x), and the gradient of x from
// that of phi(x).
//
//   rapt::OwnFeatures squares{
//       .features = 16,
//       .apply = [](const void*, const double* x, int64_t dims, double* phi) noexcept {
//         for (int64_t i = 0; i < dims; ++i) phi[i] = x[i] * x[i];
//       }};
//   rapt::Linear linear;
//   linear.own = &squares;
//
// x is the row of a query or key times sqrt(|scale|) (rapt/method/linear.h): with a scale of 1 the
// row itself. The functions are called for a token after the other, in the backward pass more than
// once for each, so that they cost more than a map of the catalogue. Sums and products are the
// same.
#include <cstdint>

namespace rapt {

// The functions of a feature map, called by several threads at once.
struct OwnFeatures {
  int64_t features = 0;  // that a token has, in [1, 2^20]
  // Writes phi [features] of x [dims]; dims is head_dim. Elements of x that are not finite should
  // give features that are not, so that they show in the results.
  void (*apply)(const void* user, const double* x, int64_t dims, double* phi) noexcept = nullptr;
  // Writes d_x [dims] from x, phi(x) and d_phi [features]. Null: calls with gradients are rejected.
  void (*backward)(const void* user, const double* x, int64_t dims, const double* phi,
                   const double* d_phi, double* d_x) noexcept = nullptr;
  const void* user = nullptr;  // the first argument of both
};

}  // namespace rapt
