#include "training/token_windows.h"

#include <algorithm>

#include "nn/training/random_numbers.h"

namespace rapt::training {

TokenWindows::TokenWindows(std::span<const Tokens> texts, int64_t block)
    : texts_(texts), block_(block) {
  int64_t end = 0;
  for (const Tokens& tokens : texts) {
    end += std::max<int64_t>(0, std::ssize(tokens) - block);
    ends_.push_back(end);
  }
}

int64_t TokenWindows::drawn(int64_t seed, WindowStream stream, int64_t number) const noexcept {
  double symmetric = 0;  // 2u - 1
  nn::draw_symmetric(static_cast<uint64_t>(seed), static_cast<uint64_t>(stream), number, number + 1,
                     &symmetric);
  // The sum is exact; only the product is rounded.
  const auto window = static_cast<int64_t>((symmetric + 1) / 2 * static_cast<double>(count()));
  return std::min(window, count() - 1);
}

std::vector<int64_t> TokenWindows::consecutive(int64_t most) const {
  std::vector<int64_t> windows;
  int64_t begin = 0;
  for (const int64_t end : ends_) {
    for (int64_t at = begin; at < end && std::ssize(windows) < most; at += block_)
      windows.push_back(at);
    begin = end;
  }
  return windows;
}

void TokenWindows::read(int64_t window, int64_t* inputs, int64_t* targets) const noexcept {
  const auto text = std::upper_bound(ends_.begin(), ends_.end(), window) - ends_.begin();
  const int64_t begin = text == 0 ? 0 : ends_[static_cast<size_t>(text) - 1];
  const int32_t* const from = texts_[static_cast<size_t>(text)].data() + (window - begin);
  std::copy_n(from, block_, inputs);
  std::copy_n(from + 1, block_, targets);
}

}  // namespace rapt::training
