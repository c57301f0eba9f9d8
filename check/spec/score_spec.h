#pragma once
// A score as plain data: a function of a scaled product, as a formula for one pair.
//
// A formula uses up to kMostPerPair of the score's own numbers per pair (the cap, the slope of the
// head). They are in `numbers`, which are drawn from the case's seed and owned by the case. The
// formula is a template over the type of its numbers (dual_numbers.h), so that derivatives,
// tangents and errors follow from it. Shares no code with the library.
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "check/spec/dual_numbers.h"
#include "check/spec/pair_place.h"
#include "check/tensors/arrays.h"
#include "rapt/anchor.h"

namespace check {

struct ScoreSpec {
  static constexpr size_t kMostPerPair = 2;
  // The numbers that a pair uses: their indices, and their values.
  using Which = std::array<int64_t, kMostPerPair>;  // -1: none
  template <class N>
  using Numbers = std::array<N, kMostPerPair>;

  enum Kind : uint8_t {
    softcap,     // cap tanh(s / cap)
    head_scale,  // scale s, a scale per head
    log_n,       // s ln n / ln length
    alibi,       // s - slope |i - j|, a slope per head
    t5_bias,     // s + table[bucket(j - i)], a table per head
    kerple_log,  // s - a ln(1 + b |i - j|), both per head
  };
  Kind kind = softcap;
  double cap = 0;             // softcap
  bool by_position = false;   // log_n: n is the query's position instead of k_len
  int64_t length = 0;         // log_n: of training; 0: no division
  bool is_signed = false;     // alibi: + slope (j - i) instead
  int64_t buckets = 8;        // t5_bias
  int64_t max_distance = 16;  // t5_bias
  bool past = false;          // t5_bias: keys after the query share its bucket
  rapt::Anchor anchor = rapt::Anchor::top_left;  // alibi, t5_bias, kerple_log
  Dims dims;           // the leading dimensions of `numbers`, without those of one head
  TensorView numbers;  // f32 or f64, made by draw()

  bool operator==(const ScoreSpec& other) const;

  int64_t bucket(int64_t ahead) const;              // t5_bias
  double log_factor(const PairPlace& place) const;  // log_n: the factor of s
  int64_t ahead(const PairPlace& place) const;      // j - i, as the anchor counts it
  double distance(const PairPlace& place) const;    // alibi, kerple_log: |i - j| or i - j

  // Draws the numbers; they are appended to `owner`. `dtype`: that of the problem.
  void draw(Random& random, DType dtype, std::vector<Tensor>& owner);

  Which numbers_at(const PairPlace& place) const;
  double number(int64_t at) const;
  TensorView part(int64_t nth) const;  // kerple_log: [dims] of the amplitudes, of the rates
  int first_head_dim() const { return kind == kerple_log ? 1 : 0; }  // where `dims` begin in them

  // The new score, its derivative by the score, and by the pair's number `which`.
  template <class N>
  N value(const N& s, const Numbers<N>& own, const PairPlace& place) const {
    using std::log1p;
    using std::tanh;
    switch (kind) {
      case softcap:
        return own[0] * tanh(s / own[0]);
      case head_scale:
        return own[0] * s;
      case log_n:
        return of_double<N>(log_factor(place)) * s;
      case alibi:
        return s - own[0] * of_double<N>(distance(place));
      case t5_bias:
        return s + own[0];
      case kerple_log:
        return s - own[0] * log1p(own[1] * of_double<N>(distance(place)));
    }
    return s;
  }
  template <class N>
  N slope(const N& s, const Numbers<N>& own, const PairPlace& place) const {
    using std::tanh;
    switch (kind) {
      case softcap: {
        const N t = tanh(s / own[0]);
        return N(1) - t * t;
      }
      case head_scale:
        return own[0];
      case log_n:
        return of_double<N>(log_factor(place));
      case alibi:
      case t5_bias:
      case kerple_log:
        break;
    }
    return N(1);
  }
  template <class N>
  N by_number(size_t which, const N& s, const Numbers<N>& own, const PairPlace& place) const {
    using std::log1p;
    using std::tanh;
    switch (kind) {
      case softcap: {
        const N part = s / own[0], t = tanh(part);
        return t - part * (N(1) - t * t);
      }
      case head_scale:
        return s;
      case log_n:
        return N(0);
      case alibi:
        return -of_double<N>(distance(place));
      case t5_bias:
        break;
      case kerple_log: {
        const N d = of_double<N>(distance(place));
        return which == 0 ? -log1p(own[1] * d) : -(own[0] * d) / (N(1) + own[1] * d);
      }
    }
    return N(1);
  }
};

// One pair's score after the scores of a problem, with its derivatives.
template <class N>
struct ScoreChain {
  N score;                         // after all of them
  N slope = N(1);                  // its derivative by the scaled product
  std::vector<N> by_number;        // [scores, kMostPerPair] and by the numbers that each uses
  std::vector<int64_t> number_at;  // [scores, kMostPerPair] which of all numbers; -1: none
};

// Applies the scores of a problem. number(spec, at) returns a number of a score as an N; of(s, f)
// is f(s), computed as N needs it.
template <class N, class Number, class Of>
ScoreChain<N> chain_of(std::span<const ScoreSpec> scores, const N& product, const PairPlace& place,
                       const Number& number, const Of& of) {
  ScoreChain<N> chain;
  chain.score = product;
  std::vector<N> before;
  std::vector<ScoreSpec::Numbers<N>> own;
  int64_t first = 0;
  for (const ScoreSpec& spec : scores) {
    before.push_back(chain.score);
    ScoreSpec::Numbers<N>& numbers = own.emplace_back();
    const ScoreSpec::Which which = spec.numbers_at(place);
    for (size_t n = 0; n < which.size(); ++n) {
      numbers[n] = which[n] < 0 ? N(0) : number(spec, which[n]);
      chain.number_at.push_back(which[n] < 0 ? -1 : first + which[n]);
    }
    chain.score = of(before.back(), [&](const N& s) { return spec.value(s, numbers, place); });
    first += spec.numbers.count();
  }
  chain.by_number.resize(chain.number_at.size(), N(0));
  for (size_t s = scores.size(); s-- > 0;) {
    const ScoreSpec& spec = scores[s];
    for (size_t n = 0; n < ScoreSpec::kMostPerPair; ++n)
      if (const size_t at = s * ScoreSpec::kMostPerPair + n; chain.number_at[at] >= 0)
        chain.by_number[at] =
            of(before[s], [&](const N& x) { return spec.by_number(n, x, own[s], place); }) *
            chain.slope;
    chain.slope =
        of(before[s], [&](const N& x) { return spec.slope(x, own[s], place); }) * chain.slope;
  }
  return chain;
}

// A number of a score as a kernel uses it.
template <class Real>
Dual<Real> number_of(const ScoreSpec& spec, int64_t at) {
  return of_double<Dual<Real>>(spec.number(at));
}

// Applies the scores of a problem to a pair without tangents.
template <class Real>
ScoreChain<Dual<Real>> chain_of(std::span<const ScoreSpec> scores, const Dual<Real>& product,
                                const PairPlace& place) {
  return chain_of(scores, product, place, number_of<Real>,
                  [](const Dual<Real>& s, const auto& f) { return still(s, f); });
}

// The number of numbers of all scores together.
int64_t count_parameters_of(std::span<const ScoreSpec> scores);

// The text in a descriptor; dimensions that follow from `leading` are left out.
std::string to_string(const ScoreSpec& score, const Dims& leading);

// The dimensions of a number per head where none are written: the heads.
Dims default_head_dims(const Dims& leading);

}  // namespace check
