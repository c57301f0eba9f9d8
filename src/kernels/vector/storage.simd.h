#pragma once
// Storage types of inputs and outputs, as loads and stores of whole and partial vectors V. bf16 and
// f16 are widened exactly when loaded, and rounded to nearest, ties to even, when stored.
// load_whole() loads a vector of the widest elements that kernels can handle: pairs of bf16
// (kPairs), else the same as load().
#include "kernels/kernel_table.h"
#include "rapt/tensor.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V>
struct AsElement {
  using Stored = typename V::Element;
  static constexpr DType kDType = sizeof(Stored) == 4 ? DType::f32 : DType::f64;
  static constexpr bool kConverts = false;
  static constexpr bool kPairs = false;
  static V load(const Stored* p) { return V::load(p); }
  static V load_whole(const Stored* p) { return V::load(p); }
  static V load_first(const Stored* p, int64_t n) { return V::load_first(p, n); }
  static void save(Stored* p, V v) { store(p, v); }
  static void save_first(Stored* p, V v, int64_t n) { store_first(p, v, n); }
};

template <class V>
struct AsBFloat16 {
  using Stored = uint16_t;
  static constexpr DType kDType = DType::bf16;
  static constexpr bool kConverts = true;
  static constexpr bool kPairs = true;
  static V load(const Stored* p) { return V::load_bf16(p); }
  static V load_whole(const Stored* p) { return V::load_pairs(p); }
  static V load_first(const Stored* p, int64_t n) { return V::load_first_bf16(p, n); }
  static void save(Stored* p, V v) { store_bf16(p, v); }
  static void save_first(Stored* p, V v, int64_t n) { store_first_bf16(p, v, n); }
};

template <class V>
struct AsFloat16 {
  using Stored = uint16_t;
  static constexpr DType kDType = DType::f16;
  static constexpr bool kConverts = true;
  static constexpr bool kPairs = false;
  static V load(const Stored* p) { return V::load_f16(p); }
  static V load_whole(const Stored* p) { return V::load_f16(p); }
  static V load_first(const Stored* p, int64_t n) { return V::load_first_f16(p, n); }
  static void save(Stored* p, V v) { store_f16(p, v); }
  static void save_first(Stored* p, V v, int64_t n) { store_first_f16(p, v, n); }
};

}  // namespace
}  // namespace rapt::RAPT_ISA
