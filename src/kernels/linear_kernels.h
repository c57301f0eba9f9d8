#pragma once
// The kernels of linear attention beside products (src/method/linear), part of the kernel table.
#include <cstdint>

#include "rapt/feature_map/feature_map.h"

namespace rapt {

// The hooks of a feature map of the catalogue (rapt/feature_map/feature_map.h).
template <class E>
struct FeatureMapKernels {
  bool projects;
  void (*apply)(const FeatureTile<E>& tile) noexcept;
  void (*backward)(const FeatureTile<E>& tile, const FeatureGradient<E>& gradient) noexcept;
};

// Linear attention (kernels/vector/linear.simd.h). Lanes are tokens. `tokens` and `queries` are
// whole vectors, which are read and written whole; of `count` elements exactly these are.
template <class E>
struct LinearKernels {
  const FeatureMapKernels<E>* maps;  // in the order of the catalogue (rapt/feature_maps.h)
  // sums [tokens] += sum over `count` of weights[i] rows[i].
  void (*add_weighted_rows)(const E* rows /* [count][tokens] */, const E* weights, int64_t count,
                            int64_t tokens, E* sums) noexcept;
  // sums [count] += the sums over tokens of rows `stride` apart, each token times its factor.
  void (*add_row_sums)(const E* rows, int64_t stride, int64_t count, const E* factors,
                       int64_t tokens, E* sums) noexcept;
  // rows [count][tokens] += column [count] row [tokens].
  void (*add_outer)(const E* column, const E* row, int64_t count, int64_t tokens, E* rows) noexcept;
  // to [count] = factor from + more; `more` null: 0.
  void (*scale_and_add)(const E* from, E factor, const E* more, int64_t count, E* to) noexcept;
  // to [count][tokens] = from * factors [tokens] + more; `more` null: 0.
  void (*scale_columns)(const E* from, const E* factors, const E* more, int64_t count,
                        int64_t tokens, E* to) noexcept;
  // weights [keys][queries] *= 2^(key power - row power); 0 where bit i of bits[j] is clear.
  // Powers null: 0.
  void (*scale_chunk_weights)(const uint64_t* bits, const E* key_powers, const E* row_powers,
                              int64_t keys, int64_t queries, E* weights) noexcept;
  // row_powers [queries] = the larger of `first` and the powers of the keys whose bit is set.
  void (*largest_powers)(const uint64_t* bits, const E* key_powers, E first, int64_t keys,
                         int64_t queries, E* row_powers) noexcept;
  // factors [count] = 2^(from - to) of integers, exact or 0; differences above 0 count as 0.
  void (*powers_between)(const E* from, E to, int64_t count, E* factors) noexcept;
  // logs [tokens] = log(sums) + ln 2 powers + constant.
  void (*log_of_sums)(const E* sums, const E* powers, E constant, int64_t tokens, E* logs) noexcept;
};

}  // namespace rapt
