#pragma once
// How much of the exact weights lies on the pairs that a method looks at.
#include <array>
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt::cli {

inline constexpr std::array<int64_t, 3> kRecallSizes = {1, 8, 64};

// Means over the queries that attend to a key.
struct TrueWeights {
  double share = 0;              // of the exact weights, on the pairs looked at
  std::array<double, 3> recall;  // of the kRecallSizes largest weights, or all if they are fewer:
                                 // how many are looked at; of equal weights the earlier key counts
  double pairs = 0;              // pairs looked at, over those that the exact call looks at
};

// Adds up rows of queries, in any number of parts.
class TrueWeightsSum {
 public:
  // Three dense tensors of one shape, a row per query: the exact weights; numbers above 0 where the
  // exact call and where the method look at the pair, which is a part of it.
  void add(const TensorView& weights, const TensorView& exact_pairs, const TensorView& pairs);

  // Zeros if no query attends to a key.
  TrueWeights mean() const;

 private:
  double share_ = 0;
  std::array<double, 3> recall_ = {};
  int64_t exact_pairs_ = 0, pairs_ = 0, rows_ = 0;
};

}  // namespace rapt::cli
