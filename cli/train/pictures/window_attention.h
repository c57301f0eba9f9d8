#pragma once
// The attention weights of one head on a window of held-out text, which is the same in all of a
// run: what the head learns to look at.
#include <string>
#include <vector>

#include "rapt/training/trainer.h"
#include "rapt/viz/heatmap.h"

namespace rapt::cli {

class WindowAttention {
 public:
  // The window is the beginning of the held-out part of the first text that has one of more than
  // a block, from its first whole line where that fits.
  explicit WindowAttention(const training::Trainer& trainer);

  // Head 0 of the last layer, with the weights of the trainer's present step. `context` must have
  // no cancel token: a picture takes a moment, and run_training() must not see it cancelled.
  viz::Heatmap heatmap(const Context& context) const;

 private:
  const training::Trainer& trainer_;
  std::vector<int64_t> tokens_;
  std::vector<std::string> labels_;  // of the tokens
};

}  // namespace rapt::cli
