#pragma once
// The tolerance of gradients, as for results (tolerance.h):
//
//   error(rapt) <= 2 error(plain loop in the same dtype) + floor      as maximum and as rms
//
// The floor follows the formulas of backward_reference.h, with e, S, A, u_w and u_o of tolerance.h.
// d_query, d_key and d_value are rounded to their dtype as they are stored, each by at most u_g of
// itself, with u_g like u_o for that dtype. Let T of a sum be |sum| + sqrt(sum of squares). Per row
// or pair
//   p      is exp(s - lse). The score has the error S e, and the stored lse the error
//            (2 max(1, |lse|) + S + A) e: r = (2 + 2 max(1, |lse|) + 2 S + A) e, relative.
//            For p, delta and dS of other normalisers see normalizers/;
//   dP     is a sum over value_dim in any order, as a score is over head_dim:
//            e (1/2 + sqrt(value_dim) / 4) T;
//   delta  is computed from the stored output. The output's weights have the error r:
//            r sum_j p |dP|. The output was rounded to its dtype:
//            u_o sqrt(sum_c (d_output output)^2). Its weights may have been rounded to 16 bits:
//            u_w sqrt(sum_j (p dP)^2) and, if scores are equal, u_w T of d_output . output. The sum
//            itself has the error e (1/2 + sqrt(value_dim) / 4) T of d_output . output. Each term
//            of given tensors (d_weights, d_lse) has the relative error e;
//   dS     = p (dP - delta): p (r |dP - delta| + error of dP + error of delta), and more if
//            flushed to zero;
//   dZ     = dS f': the error of dS times f', and |dS| times the error of f', which a running error
//            analysis of its formula computes (dual_numbers.h) for an argument with the score's
//            error.
// The gradient of a bias has the errors of dS, or of dZ if the bias is added before the score
// functions. The derivative of a score with respect to one of its learned parameters has an error
// of the same kind. The product of this error and that of dS counts, too, because the derivative
// may be smaller than its own error (softcap: the derivative with respect to the cap, where scores
// are near 0).
//
// In the sums for gradients, each product is rounded once (e) as it is added; before that the
// factors k p and dZ may be rounded to 16 bits: u_w of each (0 if d_output has another dtype),
// independent, in quadrature. All other errors that one query contributes to one element are added
// without signs, because they have common causes: delta, lse. Errors of different queries have no
// common cause and add up in quadrature. The same holds for the tables of relative positions, where
// keys of one query may share a row.
//
// Products of two parts leave out the fractions l_r and l_w of each product (two_parts.h), and of
// each sum the same fraction of its T:
//   scores are off as in the forward pass; dP by l_r T;
//   delta, which is computed from the stored output, by l_w T of d_output . output. All products of
//     one weight share its errors, which adds l_w sqrt(sum_j (p T_j)^2), where T_j is the T of
//     dP(j);
//   d_query, d_key and d_value by l_w of each product of k p or dZ in quadrature, like u_w, and of
//     the whole sum. If d_output has another dtype, FMA computes these gradients and dP, and
//     nothing is left out;
//   d_scale, which is computed from d_query . query, by l_w |dZ| T of each score, in quadrature,
//     and by l_w of the sum over the keys of each query.
//
// If transformed rows (row_errors.h) have an error err, the error of dZ row is
// (error of dZ) row + dZ err. The error that all queries contribute to a gradient of transformed
// rows then goes back through the transform, without quadrature: a rotation, or the division by a
// length, mixes the elements of a row, and their errors have common causes.
//
// Elements that may be anything because inputs are not finite: open_gradients.h.
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

// Runs the reference in the problem's dtype and in the next larger type. With a sample, the loss is
// a sum over the rows of the sample alone.
GradientExpectations gradient_expectations(const Problem& problem, const Incoming& incoming,
                                           const Sample& sample = {});

}  // namespace check
