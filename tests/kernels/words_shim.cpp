// The words of one instruction set; compiled once per set.
#include RAPT_ISA_HEADER
#include "kernels/words_shim.h"

namespace rapt::RAPT_ISA {
namespace {

// A word applied to an array, to one vector, and to two vectors.
#define RAPT_ARRAY(word)                                                               \
  [](const E* x, E* y, int64_t count) {                                                \
    for (int64_t i = 0; i < count; i += V::kLanes) store(y + i, word(V::load(x + i))); \
  }
#define RAPT_BINARY(word) \
  [](const E* a, const E* b, E* y) { store(y, word(V::load(a), V::load(b))); }

template <class V>
VectorWords<typename V::Element> vector_words() {
  using E = typename V::Element;
  VectorWords<E> w;
  w.lanes = V::kLanes;
  w.exp2 = RAPT_ARRAY(exp2);
  w.log = RAPT_ARRAY(log);
  w.tanh = RAPT_ARRAY(tanh);
  w.abs = RAPT_ARRAY(abs);
  w.load_first = [](const E* x, int64_t n, E* y) { store(y, V::load_first(x, n)); };
  w.store_first = [](const E* x, int64_t n, E* y) { store_first(y, V::load(x), n); };
  w.add = RAPT_BINARY(add);
  w.sub = RAPT_BINARY(sub);
  w.mul = RAPT_BINARY(mul);
  w.div = RAPT_BINARY(div);
  w.max = RAPT_BINARY(max);
  w.copy_sign = RAPT_BINARY(copy_sign);
  w.fma = [](const E* a, const E* b, const E* c, E* y) {
    store(y, fma(V::load(a), V::load(b), V::load(c)));
  };
  w.equal = [](const E* a, const E* b) {
    const M m = equal(V::load(a), V::load(b));
    return bits_of(m);
  };
  w.not_at_most = [](const E* a, const E* b) {
    const M m = not_at_most(V::load(a), V::load(b));
    return bits_of(m);
  };
  w.any_not_at_most = [](const E* a, const E* b) {
    return any(not_at_most(V::load(a), V::load(b)));
  };
  w.select_bits = [](uint64_t bits, const E* yes, const E* no, E* y) {
    store(y, select(mask_of(bits), V::load(yes), V::load(no)));
  };
  w.select_not_at_most = [](const E* a, const E* b, const E* yes, const E* no, E* y) {
    store(y, select(not_at_most(V::load(a), V::load(b)), V::load(yes), V::load(no)));
  };
  w.compress = [](uint64_t bits, const E* x, const int32_t* numbers, E* y, int32_t* numbers_y) {
    return compress(bits, V::load(x), numbers, y, numbers_y);
  };
  w.transpose = [](const E* x, E* y) {
    V r[V::kLanes];
    for (int64_t i = 0; i < V::kLanes; ++i) {
      r[i] = V::load(x + i * V::kLanes);
      pin(r[i]);
    }
    transpose(r);
    for (int64_t i = 0; i < V::kLanes; ++i) store(y + i * V::kLanes, r[i]);
  };
  return w;
}

IntegerWords integer_words() {
  IntegerWords w;
  w.lanes = U::kLanes;
  w.splat = [](uint64_t x, uint64_t* y) { store(y, U::splat(x)); };
  w.mul_halves = [](const uint64_t* a, const uint64_t* b, uint64_t* y) {
    store(y, mul_halves(U::load(a), U::load(b)));
  };
  w.exclusive_or = [](const uint64_t* a, const uint64_t* b, uint64_t* y) {
    store(y, exclusive_or(U::load(a), U::load(b)));
  };
  w.exclusive_or_3 = [](const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* y) {
    store(y, exclusive_or(U::load(a), U::load(b), U::load(c)));
  };
  w.upper_half = [](const uint64_t* a, uint64_t* y) { store(y, upper_half(U::load(a))); };
  w.at_least = [](const uint64_t* even, const uint64_t* odd, uint32_t bound) {
    return at_least(U::load(even), U::load(odd), bound);
  };
  return w;
}

}  // namespace

Words all_words() {
  Words w;
  w.f32 = vector_words<F>();
  w.f64 = vector_words<D>();
  w.bf16 = {[](const uint16_t* x, float* y) { store(y, F::load_bf16(x)); },
            [](const float* x, uint16_t* y) { store_bf16(y, F::load(x)); },
            [](const uint16_t* x, int64_t n, float* y) { store(y, F::load_first_bf16(x, n)); },
            [](const float* x, int64_t n, uint16_t* y) { store_first_bf16(y, F::load(x), n); }};
  w.f16 = {[](const uint16_t* x, float* y) { store(y, F::load_f16(x)); },
           [](const float* x, uint16_t* y) { store_f16(y, F::load(x)); },
           [](const uint16_t* x, int64_t n, float* y) { store(y, F::load_first_f16(x, n)); },
           [](const float* x, int64_t n, uint16_t* y) { store_first_f16(y, F::load(x), n); }};
  w.bf16_pairs = [](const uint16_t* x, float* lower, float* upper) {
    const F pairs = F::load_pairs(x);
    store(lower, lower_bf16(pairs));
    store(upper, upper_bf16(pairs));
  };
  w.integers = integer_words();
  return w;
}

}  // namespace rapt::RAPT_ISA
