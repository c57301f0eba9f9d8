#pragma once
// Problems whose rows change before they are multiplied.
#include "check/descriptor.h"
#include "rapt/attention.h"

namespace laws {

// Lets rows of some problems turn, be divided by their lengths, or both; the same for the same
// problem.
inline void change_rows(const check::Descriptor& problem, rapt::AttentionOptions& options) {
  if (problem.relative.any()) return;  // which rotary and cosine are refused beside
  static const rapt::Rotary halves, some = [] {
    rapt::Rotary rotary;
    rotary.dims = 2, rotary.pairs = rapt::RotaryPairs::interleaved;
    return rotary;
  }();
  const uint64_t drawn = problem.seed % 6;
  if (drawn > 0 && drawn < 5 && problem.head_dim % 2 == 0) {
    options.rotary.embedding = drawn < 3 ? &halves : &some;
    options.rotary.query.start = 3;
  }
  if (drawn % 2 == 1) options.cosine.emplace();
}

}  // namespace laws
