#pragma once
// A score as plain data: what happens to a scaled product, as a formula for one pair.
//
// A formula uses at most one number of the score's own per pair (the cap, the slope of the head),
// from `numbers`, which are drawn from the case's seed and owned by the case. It is a template over
// the type of its numbers (moving.h), so that derivatives, tangents and errors come from what
// stands here. Shares no code with the library.
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "check/arrays.h"
#include "check/moving.h"
#include "check/pair_place.h"
#include "rapt/anchor.h"

namespace check {

struct ScoreSpec {
  enum Kind : uint8_t {
    softcap,     // cap tanh(s / cap)
    head_scale,  // scale s, a scale per head
    log_n,       // s ln n / ln length
    alibi,       // s - slope |i - j|, a slope per head
    t5_bias,     // s + table[bucket(j - i)], a table per head
  };
  Kind kind = softcap;
  double cap = 0;             // softcap
  bool by_position = false;   // log_n: n is the query's position instead of k_len
  int64_t length = 0;         // log_n: of training; 0: no division
  bool is_signed = false;     // alibi: + slope (j - i) instead
  int64_t buckets = 8;        // t5_bias
  int64_t max_distance = 16;  // t5_bias
  bool past = false;          // t5_bias: keys behind the query share its bucket
  rapt::Anchor anchor = rapt::Anchor::top_left;  // alibi, t5_bias
  Dims dims;           // of `numbers`, but for a head's own; leading dimensions
  TensorView numbers;  // f32 or f64, made by draw()

  bool operator==(const ScoreSpec& other) const;

  int64_t bucket(int64_t ahead) const;              // t5_bias
  double log_factor(const PairPlace& place) const;  // log_n: what s is multiplied by
  int64_t ahead(const PairPlace& place) const;      // j - i, as the anchor counts it
  double distance(const PairPlace& place) const;    // alibi: what the slope is multiplied by

  // Draws the numbers; they are appended to `owner`. `dtype`: that of the problem.
  void draw(Random& random, DType dtype, std::vector<Tensor>& owner);

  // Which of its numbers the pair uses; -1: it uses none.
  int64_t number_at(const PairPlace& place) const;
  double number(int64_t at) const;

  // The score after it, the derivative by the score, and by the number.
  template <class N>
  N value(const N& s, const N& number, const PairPlace& place) const {
    using std::tanh;
    switch (kind) {
      case softcap:
        return number * tanh(s / number);
      case head_scale:
        return number * s;
      case log_n:
        return of_double<N>(log_factor(place)) * s;
      case alibi:
        return s - number * of_double<N>(distance(place));
      case t5_bias:
        return s + number;
    }
    return s;
  }
  template <class N>
  N slope(const N& s, const N& number, const PairPlace& place) const {
    using std::tanh;
    switch (kind) {
      case softcap: {
        const N t = tanh(s / number);
        return N(1) - t * t;
      }
      case head_scale:
        return number;
      case log_n:
        return of_double<N>(log_factor(place));
      case alibi:
      case t5_bias:
        break;
    }
    return N(1);
  }
  template <class N>
  N by_number(const N& s, const N& number, const PairPlace& place) const {
    using std::tanh;
    switch (kind) {
      case softcap: {
        const N part = s / number, t = tanh(part);
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
    }
    return N(1);
  }
};

// One pair's score on its way through the scores of a problem.
template <class N>
struct ScoreChain {
  N score;                         // after all of them
  N slope = N(1);                  // its derivative by the scaled product
  std::vector<N> by_number;        // [scores] and by the number that each uses
  std::vector<int64_t> number_at;  // [scores] which that is, of all numbers; -1: none
};

// `number(spec, at)` gives a number of a score as an N; `of(s, f)` is f(s), computed as N asks for.
template <class N, class Number, class Of>
ScoreChain<N> chain_of(std::span<const ScoreSpec> scores, const N& product, const PairPlace& place,
                       const Number& number, const Of& of) {
  ScoreChain<N> chain;
  chain.score = product;
  std::vector<N> before, own;
  int64_t first = 0;
  for (const ScoreSpec& spec : scores) {
    const int64_t at = spec.number_at(place);
    before.push_back(chain.score);
    own.push_back(at < 0 ? N(0) : number(spec, at));
    chain.score = of(before.back(), [&](const N& s) { return spec.value(s, own.back(), place); });
    chain.number_at.push_back(at < 0 ? -1 : first + at);
    first += spec.numbers.count();
  }
  chain.by_number.resize(scores.size());
  for (size_t s = scores.size(); s-- > 0;) {
    const ScoreSpec& spec = scores[s];
    chain.by_number[s] =
        of(before[s], [&](const N& x) { return spec.by_number(x, own[s], place); }) * chain.slope;
    chain.slope =
        of(before[s], [&](const N& x) { return spec.slope(x, own[s], place); }) * chain.slope;
  }
  return chain;
}

// A number of a score as a kernel has it.
template <class Real>
Moving<Real> number_of(const ScoreSpec& spec, int64_t at) {
  return of_double<Moving<Real>>(spec.number(at));
}

// The chain of a pair that stands still.
template <class Real>
ScoreChain<Moving<Real>> chain_of(std::span<const ScoreSpec> scores, const Moving<Real>& product,
                                  const PairPlace& place) {
  return chain_of(scores, product, place, number_of<Real>,
                  [](const Moving<Real>& s, const auto& f) { return still(s, f); });
}

// How many numbers the scores have, together.
int64_t count_of_numbers(std::span<const ScoreSpec> scores);

// As in a descriptor; `leading` tells which dimensions need not be written.
std::string to_string(const ScoreSpec& score, const Dims& leading);

// The dimensions of a number per head where none are written: the heads.
Dims default_head_dims(const Dims& leading);

}  // namespace check
