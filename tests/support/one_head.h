#pragma once
// f64 inputs of one head, for loops written by hand.
#include "support/call.h"

namespace laws {

inline constexpr double kUnit = 0x1p-53;  // the relative rounding of one f64 operation

struct OneHead {
  Tensor query, key, value;  // [q_len, dims], [k_len, dims], [k_len, dims]
  int64_t q_len, k_len, dims;
  OneHead(Random& random, int64_t q, int64_t k, int64_t d)
      : query(random_normal(random, DType::f64, {q, d})),
        key(random_normal(random, DType::f64, {k, d})),
        value(random_normal(random, DType::f64, {k, d})),
        q_len(q),
        k_len(k),
        dims(d) {}
};

inline double at(const Tensor& t, int64_t row, int64_t column) { return get(t, Dims{row, column}); }

}  // namespace laws
