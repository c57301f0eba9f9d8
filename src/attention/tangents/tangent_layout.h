#pragma once
// Where the arrays of a call for tangents lie in its workspace: a block of places for each class
// that works in it, and the sums of a part.
#include "attention/tangents/tangent_tiles.h"

namespace rapt {

template <class E>
struct TangentLayout {
  TilePlaces<E> score_tiles;
  TangentUnitPlaces<E> unit;
  TangentKeyPlaces<E> keys;
  TangentPairPlaces<E> pairs;
  TangentTilePlaces<E> tiles;
  // tangents.cpp, for second derivatives
  Place<E> query_sums;  // [slots][2] tiles [head_dim][queries]
  Place<E> key_sums;    // [slots][part][head_dim]
  Place<E> value_sums;  // [slots][part][value_dim]

  size_t bytes = 0;  // of the workspace
};

// `second`: for second derivatives instead of forward mode. Throws Error(overflow).
template <class E>
TangentLayout<E> tangent_layout(const CheckedCall& call, const WantedGradients& wanted,
                                const BackwardPlan& plan, const Kernels<E>& kernels, bool second) {
  const Problem& p = call.problem;
  GradientScratch<E> scratch = gradient_scratch(call, wanted, plan, kernels);
  auto& worker = scratch.worker;
  const int64_t part = key_part(plan);
  TangentLayout<E> layout;
  layout.score_tiles.reserve(scratch);
  layout.unit.reserve(scratch, second);
  layout.keys.reserve(scratch);
  layout.pairs.reserve(scratch, second);
  layout.tiles.reserve(scratch, second);
  if (second) worker.place(layout.query_sums, {plan.slots[kOfQuery], 2, scratch.unit, p.head_dim});
  worker.place_if(wanted.key, layout.key_sums, {plan.slots[kOfKey], part, p.head_dim});
  worker.place_if(wanted.value, layout.value_sums, {plan.slots[kOfValue], part, p.value_dim});
  layout.score_tiles.workers = scratch.call.repeat(worker, plan.workers);
  layout.bytes = scratch.call.total();
  return layout;
}

}  // namespace rapt
