#pragma once
// The interface of a score: what happens to a scaled product before the bias, the masks and the
// normaliser.
//
// A score S is a struct whose members are its parameters, with
//
//   static const Declaration kDeclaration;
//   static constexpr Cost kCost;
//   template <class V> void apply(Tile<typename V::Element>& tile) const noexcept;
//                             scores in natural units, in place
//
// A template over the vector type V of src/kernels/simd/; it names no instruction set. Scores are
// applied in the order in which they are given. They see every pair of the tile, also those that a
// mask excludes afterwards.
#include "rapt/declaration.h"
#include "rapt/tile.h"
