#pragma once
// How far a gradient may be from the truth: as results are (tolerance.h),
//
//   error(rapt) <= 2 error(plain loop in the same dtype) + floor      as maximum and as rms
//
// The floor follows the formulas of backward_reference.h, with e, D, B, C, S, u_w and u_o of
// tolerance.h, and u_g as u_o for the dtype of the gradients. Per row or pair
//   p      is e^(s - lse): the score's part is S e, and lse, which the forward pass stored, is off
//            by (2 max(1, |lse|) + S) e: r = (2 + 2 max(1, |lse|) + 2 S) e of itself;
//            Of other normalisers p, delta and dS are off by what reference_normalizer.h says;
//   dP     is a sum over value_dim in any order, as a score is over head_dim: with T its terms
//            (|sum| + sqrt(sum of squares)) e (1/2 + sqrt(value_dim) / 4) T;
//   delta  is made of the stored output, whose weights are off by r: r sum_j p |dP|, which rounds
//   to
//            its dtype: u_o sqrt(sum_c (d_output output)^2), after weights that may be rounded to
//            16 bits: u_w sqrt(sum_j (p dP)^2) and, of equal scores, u_w T of
//            d_output . output, and of sums: e (1/2 + sqrt(value_dim) / 4) T of
//            d_output . output, e of what is given (d_weights, d_lse);
//   dS     = p (dP - delta): p (r |dP - delta| + error of dP + error of delta), and what may be
//            flushed to zero;
//   dZ     = dS f': the error of dS times f', and |dS| times that of f', which a running error
//            analysis of its formula finds (dual_numbers.h), of the argument that has the score's
//            error.
// The gradient of a bias has the errors of dS, or, before the scores, of dZ.
// The derivative by a number of a score has its error likewise; where it is small beside that, as
// by the cap near 0, the error meets that of dS. Every product of them is rounded once (e) as it is
// added up, after the factors k p and dZ may have been rounded to 16 bits: u_w of each (0 if
// d_output has another dtype), independent, in quadrature. What one query adds to one element
// otherwise is summed as it is, since its errors have causes in common: delta, lse. Those of
// different queries do not, and add up in quadrature. So it is with the tables for relative
// positions, where keys of one query may share a row.
// Products of two parts leave out l_r and l_w of themselves (two_parts.h), and of sums as much of
// their T, |sum| + sqrt(sum of squares):
//   scores are off as in the forward pass; dP by l_r T;
//   delta, of the stored output, by l_w T of d_output . output, and, as products of one weight have
//     its errors in common, by l_w sqrt(sum_j (p T_j)^2) with T_j that of dP;
//   d_query, d_key and d_value by l_w of each product of k p or dZ in quadrature, as u_w, and of
//     the whole sum; where d_output has another dtype FMA makes them, and dP;
//   d_scale, which is made of d_query . query, by l_w of dZ times T of the score in quadrature, and
//     of the sum over the keys of a query.
// Of changed rows (transformed_rows.h) that are off by some err, dZ err is added to the error of dZ
// times the row. What all queries give to a gradient of changed rows then goes back through the
// change, as it is: a rotation or a length mixes the elements of a row, whose errors have causes in
// common.
#include "check/reference/backward_reference.h"
#include "check/tolerance/tolerance.h"

namespace check {

struct GradientExpectations {
  Expectation query, key, value;  // in the shapes of the inputs
  Expectation bias;               // as the bias; empty without one
  Expectation scale;              // [1]
  Expectation numbers;            // [numbers] of all scores; empty without
  Expectation normalizer;         // [1]; empty where its parameter has no gradient
  std::array<Expectation, RelativeSpec::kParts> relative;  // as the tables; empty without
};

// Runs the reference in the problem's dtype and in the next larger type. With a sample: of the loss
// over its rows alone.
GradientExpectations gradient_expectations(const Problem& problem, const Incoming& incoming,
                                           const Sample& sample = {});

}  // namespace check
