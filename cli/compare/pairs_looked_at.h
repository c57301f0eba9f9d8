#pragma once
// Which pairs calls look at, held against the exact weights of drawn queries. Never more than 72
// MiB of weights in f32 are in memory.
#include <cstdint>
#include <span>
#include <vector>

#include "cli/compare/contender.h"

namespace rapt::cli {

class PairsLookedAt {
 public:
  // Draws `rows` queries, or takes all if there are fewer. `time` must outlive it.
  PairsLookedAt(const CompareProblem& problem, int64_t rows, CallTime& time);

  // Bytes of weights and pairs that are in memory at once.
  int64_t bytes() const;

  // Sets measured.weights of those contenders that look at pairs and are compared with this
  // reference: for each of the first `seeds` seeds of methods that draw, else once.
  void measure(const Reference& reference, std::span<Contender* const> contenders, int seeds);

 private:
  // The weights of some of the rows. With a scale of 0, all pairs that the call looks at have
  // weights above 0.
  Tensor weights(const ComparedCall& call, std::span<const int64_t> rows, bool of_pairs);

  const CompareProblem& problem_;
  CallTime& time_;
  std::vector<int64_t> rows_;
  size_t rows_at_once_;
};

}  // namespace rapt::cli
