#pragma once
// Reformer's task for LSH attention, at a quarter of its size: a sequence is a separator, 127
// symbols, and the same again, and the second half must be predicted.
//
//   tokens   0 w_0 ... w_126 0 w_0 ... w_126     [batch, 256], symbols 1 to 127
//   targets  - ... - w_0 ... w_126 -             what follows tokens 128 to 254
//
//   x = embedding[tokens] + positions,  u = norm1(x)
//   h = x + attention(u Wqk, u Wqk, u Wv) Wo,  y = h + network(norm2(h)),  logits = norm3(y) Whead
//
// Attention has four heads of 32 and one projection for queries and keys (rapt/method/lsh.h, shared
// keys). A query finds its symbol only if some round hashes it into the chunk of that symbol or the
// one behind. Pairs that meet in several rounds count as often, as in the paper's program. Adam
// with 0.002 and a linear warm-up of 200 updates; tables begin with normal(0.02).
//
// Source: Kitaev, Kaiser & Levskaya 2020, arXiv:2001.04451, section 5 and table 2 (511 symbols).
#include <cstdint>
#include <vector>

#include "cli/train/examples/copy_task.h"
#include "rapt/context.h"

namespace rapt::cli {

inline constexpr int64_t kReformerSteps = 500;  // updates of the parameters
inline constexpr int64_t kReformerRounds = 2;   // hashes of training

// How many symbols of new sequences are right when attention hashes so often.
struct ReformerAccuracy {
  int64_t rounds;  // 0: one chunk, which is exact attention with these keys
  double right;    // 0 to 1
};

// Trains, and returns the shares of right symbols with 1, 2, 4 and 8 rounds and exactly, each over
// 16 sequences and four draws of rotations.
std::vector<ReformerAccuracy> train_reformer_copy(const CopyTask& task, const Context& context);

}  // namespace rapt::cli
