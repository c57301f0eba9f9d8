#pragma once
// Learning rates as functions of the step: linear warm-up, then half a cosine (Loshchilov and
// Hutter 2017, "SGDR", equation 5, without restarts).
//
//   step < warmup_steps                 peak (step + 1) / (warmup_steps + 1)
//   warmup_steps <= step < total_steps  lowest + (peak - lowest) (1 + cos(pi p)) / 2
//   total_steps <= step                 lowest
//
//   p = (step - warmup_steps) / (total_steps - warmup_steps),  lowest = min_ratio peak
//
// The first update is step 0. The rate is largest at step warmup_steps.
#include <cstdint>

namespace rapt::nn {

struct WarmupCosine {
  double peak = 1e-3;        // the largest learning rate
  int64_t warmup_steps = 0;  // updates before the rate is `peak`
  int64_t total_steps = 0;   // warm-up included
  double min_ratio = 0;      // the last learning rate, relative to `peak`
};

// The learning rate of a step. Throws Error(argument) for a peak that is negative or not finite,
// negative steps, fewer steps in total than in the warm-up, and a min_ratio outside [0, 1].
double learning_rate(const WarmupCosine& schedule, int64_t step);

}  // namespace rapt::nn
