#pragma once
// Blocks of positions i + o and j: global ones, a window, and random ones, drawn one after the
// other from those that are neither (Bentley & Floyd 1987).
#include <cstdlib>

#include "check/reference/mask_predicate.h"
#include "check/reference/philox.h"

namespace check {

struct BigbirdPredicate : AnchoredPositions {
  static constexpr std::string_view kName = "bigbird";
  int64_t block, window, global, random, seed;

  explicit BigbirdPredicate(const VariantArguments& arguments)
      : AnchoredPositions(arguments),
        block(arguments.integers.at("block")),
        window(arguments.integers.at("window")),
        global(arguments.integers.at("global")),
        random(arguments.integers.at("random")),
        seed(arguments.integers.at("seed")) {}

  bool allows(const PairPlace& place, MaskTensors) const {
    const int64_t position = place.j - ahead(place);
    const int64_t row = (position - (position % block + block) % block) / block;
    const int64_t key_block = place.j / block;
    if (key_block < global || (row >= 0 && row < global) || in_window(row, key_block)) return true;
    return random > 0 && drawn(place, row, key_block);
  }

 private:
  bool in_window(int64_t row, int64_t key_block) const {
    return std::abs(row - key_block) <= (window - 1) / 2;
  }

  // The blocks in [global, end) that are not in the window of a row.
  int64_t candidates_before(int64_t end, int64_t row) const {
    const int64_t half = (window - 1) / 2;
    const int64_t near = std::min(end, row + half + 1) - std::max(global, row - half);
    return end - global - std::max<int64_t>(near, 0);
  }

  // Whether a candidate is drawn. Candidates are counted from 0.
  bool drawn(const PairPlace& place, int64_t row, int64_t key_block) const {
    const int64_t all = candidates_before((place.k_len + block - 1) / block, row);
    const int64_t wanted = candidates_before(key_block, row);
    const int64_t head = place.index.empty() ? 0 : place.index.back();
    std::vector<int64_t> chosen;
    for (int64_t last = all - std::min(random, all), n = 0; last < all; ++last, ++n) {
      const auto found = static_cast<int64_t>(
          number(row, head, n) * static_cast<uint64_t>(last + 1) / (uint64_t{1} << 32));
      const bool repeated = std::ranges::find(chosen, found) != chosen.end();
      chosen.push_back(repeated ? last : found);
    }
    return std::ranges::find(chosen, wanted) != chosen.end();
  }

  // The nth random number of a row, below 2^32: four come from each counter.
  uint64_t number(int64_t row, int64_t head, int64_t n) const {
    const auto low = [](int64_t x) { return static_cast<uint32_t>(x); };
    const auto high = [](int64_t x) { return static_cast<uint32_t>(x >> 32); };
    const int64_t counter = 16 * row + n / 4;
    return philox4x32_10({low(counter), high(counter), low(head), high(head)},
                         {low(seed), high(seed)})[static_cast<size_t>(n % 4)];
  }
};

}  // namespace check
