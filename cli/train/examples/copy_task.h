#pragma once
// The options of the examples that train a model to repeat symbols: copy and reformer-copy.
#include <cstdint>
#include <functional>

namespace rapt::cli {

struct CopyTask {
  uint64_t seed = 1;
  int64_t steps = 0;  // updates of the parameters
  // Called after each update with its number, from 1, and the loss before it. May throw.
  std::function<void(int64_t step, double loss)> after_step = {};
  // Called with the share of the work done, after each update and each part of the test. May throw.
  std::function<void(double fraction)> progress = {};
};

}  // namespace rapt::cli
