#pragma once
// The memory that timed calls of layers and models work in, taken once.
#include <cstddef>
#include <functional>
#include <vector>

#include "rapt/context.h"
#include "rapt/nn/arena.h"
#include "rapt/nn/run.h"

namespace bench {

// Memory for the states and the scratch of a layer or model.
class LayerMemory {
 public:
  explicit LayerMemory(int threads) { context_.threads = threads; }

  // `take_state` takes the state from an arena; `calls` calls the layer, here only to count.
  void reserve(const std::function<void(rapt::nn::Arena&)>& take_state,
               const std::function<void(const rapt::nn::Run&)>& calls) {
    rapt::nn::Arena states, scratch;
    take_state(states);
    calls({.scratch = scratch, .context = context_, .training = true});
    state_bytes_.resize(states.bytes());
    scratch_bytes_.resize(scratch.bytes());
    rapt::nn::Arena with_memory(state_bytes_);
    take_state(with_memory);
    scratch_ = rapt::nn::Arena(scratch_bytes_);
  }
  rapt::nn::Run run() { return {.scratch = scratch_, .context = context_, .training = true}; }

 private:
  rapt::Context context_;
  std::vector<std::byte> state_bytes_, scratch_bytes_;
  rapt::nn::Arena scratch_;
};

}  // namespace bench
