#pragma once
// The interface of a score: what happens to a scaled product before the masks and the normaliser,
// and before the bias unless BiasOrder says otherwise.
//
// A score S is a struct whose members are its parameters, with
//
//   static const Declaration kDeclaration;
//   static constexpr Cost kCost;
//   template <class V> void apply(Tile<typename V::Element>& tile) const noexcept;
//                             scores in natural units, in place
//
// and, if its parameters must fit each other in a way that their declaration does not say,
//
//   void check() const;       throws Error; called once per call, after tensors were looked at; or
//   void check(Shape leading) const;    the same, of the leading dimensions of the output
//
// and, for gradients,
//
//   static constexpr bool kUsesBefore, kUsesAfter;    does backward() read these arrays? Else they
//                             are not kept, and hold anything
//   template <class V> void backward(const typename V::Element* before,
//                                    const typename V::Element* after, Tile<...>& tile,
//                                    typename V::Element* sums) const noexcept;
//                             tile.scores holds the gradients of `after` [keys][queries], what
//                             apply() made of `before`, and gets those of `before`; sums
//                             [numbers][queries] gets, added, those of the numbers that the head
//                             has: real parameters and the head's part of tensors declared by
//                             head_parameter(), in the order of the declaration. A gradient of 0
//                             stays 0 whatever `before` is: the pair may be excluded.
//
// and, for tangents and second derivatives (rapt/tangents.h), with `parameters` [numbers] the
// tangents of those numbers
//
//   template <class V> void tangent(const typename V::Element* before, Tile<...>& tile,
//                                   const double* parameters) const noexcept;
//                             tile.scores holds the tangents of `before` and gets those of what
//                             apply() made of it
//   template <class V> void backward_tangent(const typename V::Element* before,
//                                            const typename V::Element* before_tangents,
//                                            Tile<...>& tile, typename V::Element* d_tangents,
//                                            const double* parameters,
//                                            typename V::Element* sums) const noexcept;
//                             the derivative of backward(): tile.scores as there, d_tangents
//                             [keys][queries] likewise their tangents; sums [numbers]
//                             [queries] gets, added, the tangents of what backward() adds. Where
//                             gradient and tangent are 0, both stay 0.
//
// A template over the vector type V of src/kernels/simd/; it names no instruction set. Scores are
// applied in the order in which they are given. They see every pair of the tile, also those that a
// mask excludes afterwards.
//
// A score of a project that calls rapt has the same hooks over the element type: custom_score.h.
#include "rapt/declaration.h"
#include "rapt/tile.h"

namespace rapt {

// The hooks of a score as a call finds them: of the catalogue for one vector type, or of a score of
// your own. `score` is the struct.
template <class E>
struct ScoreKernels {
  void (*apply)(const void* score, Tile<E>& tile) noexcept;
  bool uses_before;  // does backward() read what the score found?
  bool uses_after;   // and what it left?
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
