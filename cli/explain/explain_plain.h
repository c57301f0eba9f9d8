#pragma once
// The steps that `rapt explain` computes itself in plain float64: products and rows of length 1,
// and, by the references of check/, the weights and the output with which the library's are
// compared.
#include <cstdint>
#include <vector>

#include "check/tolerance/normalizer_errors.h"
#include "rapt/attention.h"

namespace rapt::cli {

// Row-major access to an f64 matrix.
inline double& at(Tensor& matrix, int64_t i, int64_t j) {
  return matrix.values<double>()[static_cast<size_t>(i * matrix.dim(1) + j)];
}
inline double at(const Tensor& matrix, int64_t i, int64_t j) {
  return matrix.values<double>()[static_cast<size_t>(i * matrix.dim(1) + j)];
}

Tensor f64_copy(const TensorView& tensor);

// A matrix of f64, rounded to the dtype of the computation, with which the plain steps begin.
Tensor rounded(const Tensor& matrix, DType dtype);

Tensor product(const Tensor& a, const Tensor& b);  // f64 [m, n] [n, p] -> [m, p]

// Rows of f64 [m, n] divided by their lengths, or by epsilon if it is larger.
Tensor unit_rows(const Tensor& rows, double epsilon);

// A bias of [q_len or 1, k_len or 1] as [q_len, k_len]. Throws Failure for another rank.
Tensor broadcast_bias(const Tensor& bias, int64_t q_len, int64_t k_len);

// The largest difference of two matrices; equal infinities, and two NaN, have difference 0.
double difference_of(const Tensor& a, const Tensor& b);

// The reference of a normaliser, with its parameters, for rows over k_len keys.
check::Normalizer reference_of(const NormalizerRef& normalizer, int64_t k_len);

// The error bounds of a score and of one operation of the dtype.
using check::Off;

struct PlainResult {
  Tensor weights;        // f64 [q_len, k_len], 0 for masked pairs
  Tensor output;         // f64 [q_len, value_dim]
  double tolerance = 0;  // the error bound of the library's weights and output
};

// Computes weights and output from scores f64 [q_len, k_len] and value f64 [k_len, value_dim].
// `added` f64 [q_len k_len, value_dim] is added to the value of each pair, or absent. `allowed`: a
// byte per pair. The contents of masked pairs and values are ignored.
PlainResult plain_result(const Tensor& scores, const Tensor& value, const Tensor& added,
                         const std::vector<uint8_t>& allowed, const check::Normalizer& normalizer,
                         const Off& off);

}  // namespace rapt::cli
