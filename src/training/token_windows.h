#pragma once
// Windows of block + 1 tokens in several texts: inputs, and targets one token further. They are
// counted by the token with which they begin; none spans two texts.
#include <cstdint>
#include <span>
#include <vector>

#include "rapt/training/training_data.h"

namespace rapt::training {

// Which random numbers choose windows: streams of src/nn/training/random_numbers.h. Those of first
// values are hashes of names.
enum class WindowStream : uint64_t { training = 1, held_out = 2 };

class TokenWindows {
 public:
  // The texts must outlive the windows.
  TokenWindows(std::span<const Tokens> texts, int64_t block);

  // All windows, one for each place where one can begin.
  int64_t count() const noexcept { return ends_.empty() ? 0 : ends_.back(); }

  // The window that number `number` of a stream chooses; there must be windows.
  int64_t drawn(int64_t seed, WindowStream stream, int64_t number) const noexcept;

  // The first `most` windows that begin where the one before ends.
  std::vector<int64_t> consecutive(int64_t most) const;

  // Writes the inputs and the targets of a window: `block` numbers each.
  void read(int64_t window, int64_t* inputs, int64_t* targets) const noexcept;

 private:
  std::span<const Tokens> texts_;
  int64_t block_;
  std::vector<int64_t> ends_;  // of each text: windows in it and in those before
};

}  // namespace rapt::training
