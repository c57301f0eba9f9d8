#pragma once
// The tolerance of results. It is derived, not chosen:
//
//   error(rapt) <= 2 error(plain loop in the same dtype) + floor      as maximum and as rms
//
// for each tensor. Both errors are differences from the reference in the next larger type. The
// error of the plain loop measures how hard the problem is: long sums, large scores, cancelling
// values.
//
// The floor is for problems so small that the plain loop may be exact by luck. Let e be the
// distance from 1 to the next number (two roundings), p the weights, and per row
//   D = max_j |scale| (|query . key| + sqrt(sum_d (query key)^2))       B = max_j |bias|
// A tiled kernel has these rounding errors, whatever those of the plain loop are:
//   scale / ln 2 is rounded once, which changes all scores in proportion; its products with the
//     elements of the query round independently and add up in quadrature; the bias is divided by
//     ln 2, too. Together e/2 (D + B) in the weight before it is normalised, and as much in the sum
//     of the weights;
//   the sum over d has another order than in the plain loop. Each of its head_dim additions rounds
//     a partial sum by e/2 / sqrt(3) (rms), and the rms of a partial sum is below D / sqrt(3).
//     Together e/6 sqrt(head_dim) D, times 1.5, because a maximum is compared;
//   score functions propagate that error and have their own roundings. Without them the error of a
//     scaled product is F e with F = D (1 + sqrt(head_dim) / 4). With them, a running error
//     analysis of their formulas (dual_numbers.h) gives F. A bias that is added before them is
//     part of their argument, and B is 0. Row transforms add the errors of a row's elements
//     (row_errors.h) times the elements of the other row;
//   2^x has an error of one ulp (e), the inverse of the sum and the product with it are two
//     roundings (e);
//   the sum over n keys has another order than in the plain loop, as that over d:
//     A = sqrt(n) / 4.
// With S = F + B, a score has the error S e. With R = 2 + S + A, softmax has the errors
//   weight: R e p      output: R e sum_j p |value|      lse: (2 max(1, |lse|) + S + A) e
// For other normalisers the effect of a score's error S e on the weights is described in
// normalizers/; the error of the output is the sum of the weights' errors
// times |value|. A weight below the smallest normal number may be flushed to zero, which adds that
// number to the error of the weight, and that number times sum_j |value| to that of the output.
//
// With dropout, 0 or p / (1 - dropout) replaces p in the output, also in the bound for flushed
// weights. The rounded factor is multiplied into the inverse of the sum: two more roundings,
// together the relative error e of each weight in the output.
//
// 16-bit inputs are exact in f32, and lse, weights and captures are f32, so e stays that of f32.
// The output has two more roundings to nearest. Let u_w be half the distance from 1 to the next
// number in the inputs' dtype (0 if weights are not rounded), and u_o that in the output's dtype:
//   every weight is rounded by at most u_w, relative, before it is multiplied by its value. These
//     roundings are independent: in quadrature at most u_w sqrt(sum_j (p value)^2). But equal
//     scores have equal weights with equal roundings. If all scores of a row are equal, the error
//     is u_w |output|. Which numbers are rounded depends on the maximum that was subtracted, so
//     that the plain loop may be exact where the kernel is not;
//   the result is rounded by at most u_o |output|, and below the normal numbers of its dtype by
//     half its smallest denormal number.
//
// Products of two parts (two_parts.h) leave out the fraction l_r of a product of two rows' elements
// and l_w of a product with a weight. Of a sum they leave out the same fraction of
// T = |sum| + sqrt(sum of squares):
//   a score has the error l_r |scale| T, where T is that of its own pair. l_r |scale| T / e is
//     added to F;
//   the output has the error l_w (|output| + sqrt(sum_j (p value)^2)).
//
// Captures are computed from weights, whose error is r p (r = R e), and more if flushed:
//   received and map sum, mean: the sum or the mean of these errors; map max: the largest in the
//     cell;
//   entropy: H = -sum p ln p. Errors r_j p_j of weights that still sum to 1 change it by
//     sum_j r_j p_j (ln p_j + H), at most r sum_j p |ln p + H|. A kernel computes lse - sum p s,
//     and both terms are rounded, with the common factor of the sum: 2 e (max(1, |lse|) +
//     |sum p s|). The errors of the scores enter lse and sum p s with opposite signs. They need not
//     cancel, because they differ from key to key: S e more.
//   top-k: the weight at each place of the list has the error of a weight. Keys whose weights
//     differ by less may change places.
//
// Where truth and plain loop are finite, the result must be finite. Where both are NaN, it must be
// NaN, and where both are the same infinity, that infinity. Where the truth is not finite and the
// plain loop is something else, for example because a weight of 1e-60 times an infinity is NaN in
// f32, the result must not be finite, nor the opposite infinity. Where only the truth is finite,
// the dtype overflows, and the result may be anything. A row without keys is compared exactly.
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "check/reference/reference.h"

namespace check {

// Half the distance from 1 to the next number of a 16-bit dtype, and its smallest number above 0.
// Both are 0 for f32 and f64, to which no result is rounded.
double unit_roundoff(rapt::DType dtype);
double smallest_denormal(rapt::DType dtype);

// Whether a weight of the truth, with this error, may be 0 in the result, or a 0 may be a weight;
// or whether a kernel may leave it out although it is 0 (relu: blocks without a weight are not
// read). Then its products with NaN or infinities may be anything. `tiny`: the smallest normal
// number.
bool may_vanish(const Normalizer& normalizer, double weight, double error, double tiny);

// A weight of the truth as a double that is 0 only for 0: one in long double may be smaller than
// all doubles.
template <class Wide>
double weight_number(Wide weight) {
  const auto number = static_cast<double>(weight);
  return number == 0 && weight > 0 ? std::numeric_limits<double>::denorm_min() : number;
}

// The largest allowed error of a tensor, as maximum and as root mean square.
struct Budget {
  double max = 0, rms = 0;
};

// The result of comparing one tensor.
struct Verdict {
  bool ok = true;
  std::string message;  // names the worst element
  Budget error, allowed;
};

// The expectation for one tensor: the truth, the result of the plain loop, and the floor per
// element.
struct Expectation {
  std::vector<long double> truth, plain;
  std::vector<double> floor;
  std::vector<char> open;   // elements that may be anything; empty: none
  std::vector<int64_t> at;  // which elements of the tensor these are; empty: all, in order

  Budget budget() const;
  // Whether `got`, all elements of the tensor, is within `factor` budgets.
  Verdict verdict(std::span<const double> got, const char* what, double factor = 1) const;
};

struct Expectations {
  Expectation output;       // [..., q_len, value_dim]
  Expectation lse;          // [..., q_len]
  Expectation weights;      // [..., rows, k_len], or [heads, rows, k_len]
  Expectation map;          // [..., rows, columns], or [heads, rows, columns]
  Expectation entropy;      // [..., q_len]
  Expectation received;     // [..., k_len]
  Expectation top_weights;  // [..., q_len, top_k]: the largest weights, 0 behind the last key
  // For the keys of top-k: the weights of all keys of the computed rows, and their error bounds.
  struct Candidates {
    int64_t row = 0;                   // in [..., q_len]
    std::vector<long double> weights;  // of the truth: a tie in f64 need not be a tie here
    std::vector<double> error;
    std::vector<char> seen;
  };
  std::vector<Candidates> candidates;
};

// Runs the reference in the problem's dtype and in the next larger type, over the rows of the
// sample. map and received are compared only for heads whose rows are all in the sample.
Expectations expectations(const Problem& problem, const Captures& captures = all_weights(),
                          const Sample& sample = {});

// Whether these are the keys of the largest weights. `keys` and `weights` are [..., q_len, top_k].
Verdict verdict_of_top_k(const Expectations& expected, std::span<const double> keys,
                         std::span<const double> weights, int64_t top_k);

}  // namespace check
