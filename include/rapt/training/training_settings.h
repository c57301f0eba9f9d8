#pragma once
// How a language model is trained. The defaults are nanoGPT's recipe for a CPU
// (github.com/karpathy/nanoGPT, README.md, "I only have a macbook").
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt::training {

// Which windows of the held-out tokens an evaluation reads. All evaluations of a run read the same.
enum class EvaluationWindows : uint8_t {
  random,       // drawn by counters, as nanoGPT draws them
  consecutive,  // one after the other from the beginning, without an overlap
};
inline constexpr const char* kEvaluationWindowsNames[] = {"random", "consecutive"};

// Numbers of a run.
struct TrainingSettings {
  int64_t batch = 12, block = 64;  // a step reads `batch` windows of `block` tokens
  int64_t steps = 2000;            // updates of the whole run

  // Linear warm-up from 0, then half a cosine (rapt/nn/schedule.h).
  double learning_rate = 1e-3;      // the largest
  double min_learning_rate = 1e-4;  // the last
  int64_t warmup_steps = 100;       // updates before the largest

  double beta1 = 0.9;         // of AdamW's averages of gradients (rapt/nn/adam.h)
  double beta2 = 0.99;        // of its averages of their squares
  double weight_decay = 0.1;  // of matrices, which embeddings are; not of norms and biases
  double clip_norm = 1;       // of all gradients together; 0: gradients are not clipped

  int64_t seed = 1;          // of first values, windows and dropout; 0 or more
  DType dtype = DType::f32;  // of the parameters: f32, or bf16 with an f32 copy in the optimiser

  int64_t evaluation_interval = 250;  // steps between evaluations; the last step has one, too
  EvaluationWindows evaluation = EvaluationWindows::random;  // which windows are read
  int64_t evaluation_windows = 240;                          // of `consecutive`: at most
};

// Throws Error(argument), with the member as its argument, for a value that is out of range.
void check_settings(const TrainingSettings& settings);

}  // namespace rapt::training
