#pragma once
// The passes over the keys of a call before its first query tile.
#include "attention/rows/transform_keys.h"
#include "attention/tiles/packed_keys.h"
#include "attention/tiles/prefilter.h"
#include "attention/tiles/tile_places.h"
#include "base/rare.h"

namespace rapt {

// Transforms, rounds and packs keys, as far as the call needs it. Throws Error(cancelled).
template <class E>
void prepare_keys(const ForwardCall<E>& call, const Context& context) {
  const TilePlaces<E>& places = call.layout;
  write_relative(call, places.relative);
  if (call.problem.rows.any()) transform_keys(call, places.row_transform, places.workers, context);
  if (rare(call.kernels.prefilter != nullptr)) round_keys(call, context);
  if (rare(call.tiling.packs_ahead)) pack_keys(call, context);
}

}  // namespace rapt
