#pragma once
// How far a result may be from the truth, derived and not chosen.
//
//   error(rapt) <= 2 error(plain loop in the same dtype) + floor      as maximum and as rms
//
// per tensor, both errors against the reference in the next larger type. The plain loop knows how
// hard the problem is: long sums, large scores, cancelling values.
//
// The floor is for problems so small that the plain loop may be exact by luck. With e the distance
// from 1 to the next number (two roundings), p the weights, and per row
//   D = max_j |scale| (|query . key| + sqrt(sum_d (query key)^2))       B = max_j |bias|
// a tiled kernel has to round, whatever the plain loop did:
//   scale log2(e) is one rounded number, which shifts all scores in proportion; its products with
//     the query's elements round independently and add up in quadrature; the bias is multiplied by
//     log2(e) too: e/2 (D + B) in the weight before its normalisation, and as much in the sum;
//   the sum over d in another order than the plain loop's: each of its head_dim additions rounds by
//     e/2 / sqrt(3) (rms) of a partial sum, whose rms is below D / sqrt(3): e/6 sqrt(head_dim) D
//     together, taken one and a half times, as a maximum is compared;
//   2^x is within one ulp (e), the sum's inverse and the product with it are two roundings (e).
// With S = D (1 + sqrt(head_dim) / 4) + B:
//   weight: (2 + S) e p      output: (2 + S) e sum_j p |value|      lse: (2 max(1, |lse|) + S) e
// A weight below the smallest normal number may be flushed to zero, hence that number times
// 1 or sum_j |value| on top.
//
// Where the truth is not finite, neither may the result be, and where truth and plain loop are
// finite, the result must be. A row without keys is compared exactly.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "reference/attention_reference.h"

namespace reference {

// The largest and the root mean square error that a tensor may have.
struct Budget {
  double max = 0, rms = 0;
};

// One tensor: what it should be, what the plain loop gives, and the floor per element.
struct Expectation {
  std::vector<long double> truth, plain;
  std::vector<double> floor;

  Budget budget() const;
  // Is `got` within `factor` budgets? The message names the worst element.
  testing::AssertionResult met_by(std::span<const double> got, const char* what,
                                  double factor = 1) const;
};

struct Expectations {
  Expectation output;   // [..., q_len, value_dim]
  Expectation lse;      // [..., q_len]
  Expectation weights;  // [..., q_len, k_len]
};

// Runs the reference in the problem's dtype and in the next larger type.
Expectations expectations(const Problem& problem);

// The elements of any view, row-major.
std::vector<double> values_of(const rapt::TensorView& view);

}  // namespace reference
