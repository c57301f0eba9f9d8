#pragma once
// The score functions of a problem, applied to a pair one after the other: s' = f_n(... f_1(z)).
#include "check/spec/score_spec.h"

namespace check {

// One pair's score after the scores of a problem, with its derivatives.
template <class N>
struct ScoreChain {
  N score = N(0);                  // after all of them
  N slope = N(1);                  // its derivative by the scaled product
  std::vector<N> by_number;        // [scores, kMostPerPair] and by the numbers that each uses
  std::vector<int64_t> number_at;  // [scores, kMostPerPair] which of all numbers; -1: none
};

// number(spec, at) returns a number of a score as an N; at(s, f) is f(s), computed as N needs it.
template <class N, class Number, class At>
ScoreChain<N> chain_of(std::span<const ScoreSpec> scores, const N& product, const PairPlace& place,
                       const Number& number, const At& at) {
  ScoreChain<N> chain;
  chain.score = product;
  std::vector<PairScore<N>> steps;
  int64_t first = 0;
  for (const ScoreSpec& spec : scores) {
    PairNumbers<N> own;
    const ScoreSpec::Which which = spec.numbers_at(place);
    for (size_t n = 0; n < which.size(); ++n) {
      own[n] = which[n] < 0 ? N(0) : number(spec, which[n]);
      chain.number_at.push_back(which[n] < 0 ? -1 : first + which[n]);
    }
    steps.push_back(at(chain.score, [&](const N& s) { return spec.of(s, own, place); }));
    chain.score = steps.back().value;
    first += spec.count();
  }
  chain.by_number.resize(chain.number_at.size());
  for (size_t s = scores.size(); s-- > 0;) {
    for (size_t n = 0; n < kMostPerPair; ++n)
      chain.by_number[s * kMostPerPair + n] = steps[s].by_number[n] * chain.slope;
    chain.slope = steps[s].slope * chain.slope;
  }
  return chain;
}

template <std::floating_point Real>
ScoreChain<Real> chain_of(std::span<const ScoreSpec> scores, Real product, const PairPlace& place) {
  const auto number = [](const ScoreSpec& spec, int64_t at) {
    return of_double<Real>(spec.number(at));
  };
  return chain_of(scores, product, place, number, [](Real s, const auto& f) { return f(s); });
}

}  // namespace check
