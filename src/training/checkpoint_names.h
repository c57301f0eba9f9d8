#pragma once
// The names of what a checkpoint holds beside the files of its model and tokenizer.

namespace rapt::training {

inline constexpr const char* kStateFile = "/training.json";
inline constexpr const char* kOptimizerFile = "/optimizer.safetensors";

}  // namespace rapt::training
