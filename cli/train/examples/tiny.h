#pragma once
// The tiny run of many tutorials: multi-head attention learns to return its input.
//
//   x = embedding[tokens] [2, 4, 16],  y = attention(x),  loss = mean of (y - x)^2
//
// The tokens are 1 to 8 of 10, attention has four heads, and Adam with a learning rate of 0.01
// makes an update in each of 100 epochs. Three versions differ in the embedding.
#include <cstdint>
#include <vector>

#include "rapt/context.h"

namespace rapt::cli {

enum class TinyEmbedding {
  frozen,   // drawn once; the target does not change
  trained,  // drawn once and updated. It is the input and the target, so that the target moves, and
            // its gradient has a part from each: that of the loss as it is written
  redrawn,  // drawn again in each epoch, as the tutorial does: no epoch meets the input of another
};

struct TinyRun {
  std::vector<double> losses;  // of each epoch, before its update
  // The root mean square of the target in the first and in the last epoch. A target of zeros would
  // be a loss of 0 without anything learned.
  double target_rms_before = 0, target_rms_after = 0;

  // How many times smaller the loss is in epoch 80 than in epoch 0.
  double falls() const { return losses.front() / losses[80]; }
};

// Throws Error(cancelled) if the context is.
TinyRun train_tiny(TinyEmbedding kind, uint64_t seed, const Context& context);

}  // namespace rapt::cli
