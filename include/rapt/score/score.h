#pragma once
// The interface of a score function (score for short). It changes the scaled products before the
// masks and the normaliser, and before the bias unless BiasOrder says otherwise.
//
// A score S is a struct whose members are its parameters, with
//
//   static const Declaration kDeclaration;
//   template <class V> void apply(Tile<typename V::Element>& tile) const noexcept;
//                             scores in natural units, in place
//
// and, in the catalogue, if apply() reads neither the head nor positions,
//
//   static constexpr bool kPlaceless = true;    one call then serves a tile with queries of several
//                             heads
//
// and, if its parameters depend on each other in a way that their declaration does not state,
//
//   void check() const;       throws Error; called once per call, after tensors were checked; or
//   void check(Shape leading) const;    the same, with the leading dimensions of the output
//
// and, for gradients,
//
//   static constexpr bool kUsesBefore, kUsesAfter;    backward() reads these arrays. Arrays that it
//                             does not read are not kept, and their contents are undefined
//   template <class V> void backward(const typename V::Element* before,
//                                    const typename V::Element* after, Tile<...>& tile,
//                                    typename V::Element* sums) const noexcept;
//                             `after` [keys][queries] is what apply() made of `before`. On entry
//                             tile.scores holds the gradients of `after`. backward() replaces them
//                             by those of `before`. Adds to sums [numbers][queries] the gradients
//                             of the head's learned parameters: real parameters and the head's part
//                             of tensors declared by head_parameter(), in the order of the
//                             declaration. A gradient of 0 must stay 0 whatever `before` is,
//                             because the pair may be masked out.
//
// and, for tangents and second derivatives (rapt/tangents.h), where `parameters` [numbers] holds
// the tangents of the head's learned parameters,
//
//   template <class V> void tangent(const typename V::Element* before, Tile<...>& tile,
//                                   const double* parameters) const noexcept;
//                             on entry tile.scores holds the tangents of `before`; replaces them by
//                             those of apply()'s result
//   template <class V> void backward_tangent(const typename V::Element* before,
//                                            const typename V::Element* before_tangents,
//                                            Tile<...>& tile, typename V::Element* d_tangents,
//                                            const double* parameters,
//                                            typename V::Element* sums) const noexcept;
//                             the derivative of backward(). tile.scores is as in backward().
//                             d_tangents [keys][queries] holds on entry the tangents of the
//                             gradients of `after`; replaces them by those of `before`. Adds to
//                             sums [numbers][queries] the tangents of what backward() adds. If
//                             gradient and tangent are 0, both must stay 0.
//
// Hooks are templates over the vector type V of src/kernels/simd/; a score names no instruction
// set. Scores are applied in the order in which they are given, to every pair of the tile, also to
// pairs that a mask excludes afterwards.
//
// A score of your own has the same hooks over the element type: custom_score.h.
#include "rapt/declaration.h"
#include "rapt/tile.h"

namespace rapt {

// The hooks that a call uses for one score. Those of a catalogue score are compiled for one vector
// type, those of your own score for its element type. `score` points to the score's struct.
template <class E>
struct ScoreKernels {
  void (*apply)(const void* score, Tile<E>& tile) noexcept;
  bool placeless;    // kPlaceless
  bool uses_before;  // backward() reads the scores before apply()
  bool uses_after;   // backward() reads the scores after apply()
  // Null for a score without a backward pass.
  void (*backward)(const void* score, const E* before, const E* after, Tile<E>& tile,
                   E* sums) noexcept;
  // Both null for a score without tangents and second derivatives.
  void (*tangent)(const void* score, const E* before, Tile<E>& tile,
                  const double* parameters) noexcept;
  void (*backward_tangent)(const void* score, const E* before, const E* before_tangents,
                           Tile<E>& tile, E* d_tangents, const double* parameters,
                           E* sums) noexcept;
};

}  // namespace rapt
