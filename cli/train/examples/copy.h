#pragma once
// A small Transformer learns to copy: 16 symbols, a separator, and the same 16 symbols again.
//
//   tokens   s_0 s_1 ... s_15 | s_0 ... s_14     [batch, 32]
//   targets   -   -  ...   - s_0 s_1 ... s_15    what follows each token; none before the separator
//
// The model is a GPT (rapt/nn/gpt.h) of two blocks with four heads and 32 features. Its scores have
// a learned row per distance (Shaw et al. 2018, arXiv:1803.02155), because a symbol stands 16
// places before the place that must say it. AdamW follows a warm-up and half a cosine. All
// sequences are drawn anew, those of training and those of the test.
#include <cstdint>

#include "cli/train/examples/copy_task.h"
#include "rapt/context.h"

namespace rapt::cli {

inline constexpr int64_t kCopySteps = 200;       // updates of the parameters
inline constexpr int64_t kCopySequences = 1000;  // of the test
inline constexpr int64_t kCopiedSymbols = 16;    // of each sequence

// Trains, and returns how many of kCopySequences sequences are copied without a mistake by greedy
// decoding: 16 times, the most likely token is appended.
int64_t train_copy(const CopyTask& task, const Context& context);

}  // namespace rapt::cli
