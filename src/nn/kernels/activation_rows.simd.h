#pragma once
// Activations and their gradients over an array (kernels/vector/activations.simd.h).
#include "kernels/vector/activations.simd.h"
#include "kernels/vector/storage.simd.h"
#include "kernels/vector/two_vectors.simd.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class S, Activation A>
RAPT_NOINLINE void activate_as(const void* z, int64_t count, void* y) noexcept {
  const auto* from = static_cast<const typename S::Stored*>(z);
  auto* to = static_cast<typename S::Stored*>(y);
  constexpr int64_t kLanes = V::kLanes;
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const auto two = activate<A>(Two<V>{S::load(from + i), S::load(from + i + kLanes)});
    S::save(to + i, two.first);
    S::save(to + i + kLanes, two.second);
  }
  for (; i + kLanes <= count; i += kLanes) S::save(to + i, activate<A>(S::load(from + i)));
  if (i < count) S::save_first(to + i, activate<A>(S::load_first(from + i, count - i)), count - i);
}

template <class V, class S, Activation A>
RAPT_NOINLINE void activation_gradient_as(const void* z, const void* d_y, int64_t count,
                                          void* d_z) noexcept {
  const auto* at = static_cast<const typename S::Stored*>(z);
  const auto* from = static_cast<const typename S::Stored*>(d_y);
  auto* to = static_cast<typename S::Stored*>(d_z);
  constexpr int64_t kLanes = V::kLanes;
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const Two<V> d{S::load(from + i), S::load(from + i + kLanes)};
    const auto two = mul(d, slope<A>(Two<V>{S::load(at + i), S::load(at + i + kLanes)}));
    S::save(to + i, two.first);
    S::save(to + i + kLanes, two.second);
  }
  for (; i + kLanes <= count; i += kLanes)
    S::save(to + i, mul(S::load(from + i), slope<A>(S::load(at + i))));
  if (i < count) {
    const int64_t n = count - i;
    const V d = mul(S::load_first(from + i, n), slope<A>(S::load_first(at + i, n)));
    S::save_first(to + i, d, n);
  }
}

// Calls f.template operator()<A>() with the activation as a constant.
template <class Function>
RAPT_INLINE void with_activation(Activation activation, const Function& f) {
  switch (activation) {
    case Activation::none:
      return f.template operator()<Activation::none>();
    case Activation::relu:
      return f.template operator()<Activation::relu>();
    case Activation::gelu:
      return f.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return f.template operator()<Activation::gelu_tanh>();
    case Activation::silu:
      return f.template operator()<Activation::silu>();
  }
}

template <class V, class S>
void activate_rows(Activation activation, const void* z, int64_t count, void* y) noexcept {
  with_activation(activation, [&]<Activation A>() { activate_as<V, S, A>(z, count, y); });
}
template <class V, class S>
void activation_gradient_rows(Activation activation, const void* z, const void* d_y, int64_t count,
                              void* d_z) noexcept {
  with_activation(activation,
                  [&]<Activation A>() { activation_gradient_as<V, S, A>(z, d_y, count, d_z); });
}

}  // namespace
}  // namespace rapt::RAPT_ISA
