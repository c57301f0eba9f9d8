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
//   what scores make of that error, and their own roundings, a running error analysis of their
//     formulas finds (dual_numbers.h): F e instead of D (1 + sqrt(head_dim) / 4) e; a bias that is
//     added before them is part of what they are made of, and B is 0. Rows that are changed before
//     they are multiplied add what their elements are off (transformed_rows.h) times those of the
//     other row;
//   2^x is within one ulp (e), the sum's inverse and the product with it are two roundings (e);
//   the sum over n keys in another order than the plain loop's, as that over d: A = sqrt(n) / 4.
// With S = F + B + A:
//   weight: (2 + S) e p      output: (2 + S) e sum_j p |value|      lse: (2 max(1, |lse|) + S) e
// of softmax; what a score's S e makes of the weights of other normalisers is said with their
// formulas (reference_normalizer.h). The output's is that of weights with their values.
// A weight below the smallest normal number may be flushed to zero, hence that number times
// 1 or sum_j |value| on top.
//
// Dropout makes p 0 or p / (1 - dropout) in the output, what may be flushed included. The factor,
// rounded, is multiplied into the inverse of the sum: two roundings more, e of p in the output.
//
// 16-bit inputs are exact in f32, and lse, weights and captures are f32: e stays that of f32. To
// the output two roundings to nearest are added, with u_w the half distance of 16-bit numbers at 1
// of the inputs' dtype (0 if weights are not rounded) and u_o that of the output's dtype:
//   every weight rounds by at most u_w of itself before it meets its value; these are independent,
//     and in quadrature at most u_w sqrt(sum_j (p value)^2), but those of equal scores are equal,
//     by which a sum of nothing else is off by u_w |output|; which numbers are rounded depends on
//     the maximum that was subtracted, so that the plain loop's luck is not the kernel's;
//   the result rounds by at most u_o |output|, and below the normal numbers of its dtype by half
//     its smallest denormal number.
//
// Products of two parts (two_parts.h) leave out l_r of a product of rows, l_w of one with a weight,
// and of sums of them as much of T = |sum| + sqrt(sum of squares):
//   a score is off by l_r D of its own pair, which is added to F in units of e;
//   the output is off by l_w (|output| + sqrt(sum_j (p value)^2)).
//
// The captures are made of weights, whose error is r p (r = (2 + S) e) plus what may be flushed:
//   received and map sum, mean: the sum, the mean of these; map max: the largest of the cell;
//   entropy: H = -sum p ln p. An error r_j p_j of the weights, which still sum to 1, moves it by
//     sum_j r_j p_j (ln p_j + H), at most r sum_j p |ln p + H|. A kernel takes it as lse - sum p s,
//     and both terms, the sum's common factor included, round: 2 e (max(1, |lse|) + |sum p s|).
//     The scores' own errors are in lse and sum p s with opposite signs but not with the same
//     value for each key: S e.
//   top-k: a weight in its place has the error of a weight; keys whose weights are closer than
//     that may change places.
//
// Where the truth is not finite, neither may the result be, and where truth and plain loop are
// finite, the result must be. A row without keys is compared exactly.
#include <span>
#include <string>
#include <vector>

#include "check/reference/reference.h"
#include "check/spec/captures.h"

namespace check {

// Half the distance from 1 to the next number, and the smallest number above 0: of the 16-bit
// dtypes; 0 for those that nothing is rounded to.
double unit_roundoff(rapt::DType dtype);
double smallest_denormal(rapt::DType dtype);

// The largest and the root mean square error that a tensor may have.
struct Budget {
  double max = 0, rms = 0;
};

// How one tensor compares.
struct Verdict {
  bool ok = true;
  std::string message;  // names the worst element
  Budget error, allowed;
};

// One tensor: what it should be, what the plain loop gives, and the floor per element.
struct Expectation {
  std::vector<long double> truth, plain;
  std::vector<double> floor;
  std::vector<int64_t> at;  // which elements of the tensor these are; empty: all, in order

  Budget budget() const;
  // Is `got` within `factor` budgets? `got` has the elements of the tensor, all of them.
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
  // For the keys of top-k: the weights of all keys of the rows looked at, and what they may be off.
  struct Candidates {
    int64_t row = 0;                   // in [..., q_len]
    std::vector<long double> weights;  // as the truth has them: a tie of f64 need not be one here
    std::vector<double> error;
    std::vector<char> seen;
  };
  std::vector<Candidates> candidates;
};

// All weights, and nothing else.
inline Captures all_weights() {
  Captures captures;
  captures.weights.emplace();
  return captures;
}

// Runs the reference in the problem's dtype and in the next larger type, over the rows of the
// sample. Of map and received only those heads of which the sample has all rows.
Expectations expectations(const Problem& problem, const Captures& captures = all_weights(),
                          const Sample& sample = {});

// Are these the keys of the largest weights? `keys` and `weights` are [..., q_len, top_k].
Verdict verdict_of_top_k(const Expectations& expected, std::span<const double> keys,
                         std::span<const double> weights, int64_t top_k);

}  // namespace check
