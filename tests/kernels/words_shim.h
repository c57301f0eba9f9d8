#pragma once
// The vector words of src/kernels/simd/ as plain functions on arrays, for tests.
#include <cstdint>

namespace rapt {

template <class E>
struct VectorWords {
  int64_t lanes;
  // y = word(x); count is a multiple of the lanes.
  using Function = void (*)(const E* x, E* y, int64_t count);
  Function exp2, log, tanh, abs;
  // Each takes one vector. Arrays have `lanes` elements unless a comment says otherwise.
  void (*load_first)(const E* x /* [n] */, int64_t n, E* y);
  void (*store_first)(const E* x, int64_t n, E* y /* [n] */);
  using Binary = void (*)(const E* a, const E* b, E* y);
  Binary add, sub, mul, div, max, copy_sign;
  void (*fma)(const E* a, const E* b, const E* c, E* y);
  // Returns a bit per lane, set where the condition holds.
  uint64_t (*equal)(const E* a, const E* b);
  uint64_t (*not_at_most)(const E* a, const E* b);
  bool (*any_not_at_most)(const E* a, const E* b);
  // Selects `yes` where bit i is set, or where a <= b does not hold.
  void (*select_bits)(uint64_t bits, const E* yes, const E* no, E* y);
  void (*select_not_at_most)(const E* a, const E* b, const E* yes, const E* no, E* y);
  // Like the word: y and numbers_y receive the lanes whose bit is set. Returns how many.
  int64_t (*compress)(uint64_t bits, const E* x, const int32_t* numbers, E* y, int32_t* numbers_y);
  void (*transpose)(const E* x /* [lanes][lanes] */, E* y /* [lanes][lanes] */);
};

// Loads and stores of one 16-bit type.
struct HalfWords {
  void (*load)(const uint16_t* x, float* y);
  void (*store)(const float* x, uint16_t* y);
  void (*load_first)(const uint16_t* x /* [n] */, int64_t n, float* y);
  void (*store_first)(const float* x, int64_t n, uint16_t* y /* [n] */);
};

// Vectors of integers; arrays have `lanes` elements.
struct IntegerWords {
  int64_t lanes;
  void (*splat)(uint64_t x, uint64_t* y);
  using Binary = void (*)(const uint64_t* a, const uint64_t* b, uint64_t* y);
  Binary mul_halves, exclusive_or;
  void (*exclusive_or_3)(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* y);
  void (*upper_half)(const uint64_t* a, uint64_t* y);
  uint64_t (*at_least)(const uint64_t* even, const uint64_t* odd, uint32_t bound);
};

struct Words {
  VectorWords<float> f32;
  VectorWords<double> f64;
  HalfWords bf16, f16;
  // Pairs of bf16 [2 lanes]: their first and their second numbers.
  void (*bf16_pairs)(const uint16_t* x, float* lower, float* upper);
  IntegerWords integers;
};

// The words of the instruction set in use.
const Words& words();
template <class E>
const VectorWords<E>& words_of();
template <>
inline const VectorWords<float>& words_of<float>() {
  return words().f32;
}
template <>
inline const VectorWords<double>& words_of<double>() {
  return words().f64;
}

}  // namespace rapt
