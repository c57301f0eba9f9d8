#pragma once
// What forward and backward calls of layers take beside tensors.
//
// Every layer follows one pattern; x and y stand for its inputs and outputs:
//
//   struct Layer { Parameter weight; ...; struct State { ... }; };
//   Layer make_layer(...)                           parameters of zeros; init.h draws them
//   Layer::State make_state(layer, shape, arena)    what backward needs, if anything
//   forward(layer, x, y, state, run)                writes y and the state
//   backward(layer, x, d_y, state, d_x, run)        writes d_x, adds to the parameters' gradients
//
// There is no tape and no graph: a block calls its parts one after the other, and its backward call
// calls theirs in reverse. Tensors have the dtype of the parameters unless a layer says otherwise.
// An absent d_x is not computed. Results have the same bits for any executor and number of threads.
//
// All calls throw Error (error.h) before they write anything. They take temporaries from
// `run.scratch`, give them back when they return, and allocate nothing.
#include <cstdint>

#include "rapt/context.h"
#include "rapt/nn/arena.h"

namespace rapt::nn {

struct Run {
  Arena& scratch;
  const Context& context;
  bool training = false;  // does dropout act?
  uint64_t seed = 0;      // of dropout; another one for each step

  // Does the call only count the memory that it needs (arena.h)?
  bool counts() const noexcept { return scratch.counts(); }
};

}  // namespace rapt::nn
