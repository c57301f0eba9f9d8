// Shares of allowed pairs: from the cover of whole tiles where it decides, else from counted bits.
#include "cli/mask/mask_shares.h"

#include <algorithm>
#include <bit>

#include "cli/process/interrupt.h"

namespace rapt::cli {
namespace {

// The pairs of one tile that are allowed; `words` has room for its keys.
int64_t allowed_of(const Mask& mask, const BoundMask& bound, Positions queries, Positions keys,
                   std::vector<uint64_t>& words) {
  switch (mask.cover(bound, queries, keys)) {
    case Cover::none:
      return 0;
    case Cover::all:
      return queries.count * keys.count;
    case Cover::some:
      break;
  }
  const uint64_t full = low_bits(queries.count);
  std::fill_n(words.begin(), keys.count, full);
  mask.exclude(bound, queries, keys, words.data());
  int64_t count = 0;
  for (int64_t j = 0; j < keys.count; ++j)
    count += std::popcount(words[static_cast<size_t>(j)] & full);
  return count;
}

}  // namespace

Shares allowed_shares(const Mask& mask, const Head& head, Grid cell) {
  constexpr int64_t kQueries = 64;  // bits of a word of Mask::exclude()
  const auto cells = [](int64_t length, int64_t per_cell) {
    return (length + per_cell - 1) / per_cell;
  };
  Shares shares{cell, cells(head.q_len, cell.queries), cells(head.k_len, cell.keys), {}};
  std::vector<BoundMask> slots(static_cast<size_t>(mask.bound_slots()));
  slots[0] = {.mask = &mask, .q_len = head.q_len, .k_len = head.k_len};
  mask.bind(head, slots.data());
  std::vector<uint64_t> words(static_cast<size_t>(std::min(cell.keys, head.k_len)));
  std::vector<int64_t> counts(static_cast<size_t>(shares.columns));
  for (int64_t row = 0; row < shares.rows; ++row) {
    std::fill(counts.begin(), counts.end(), 0);
    const int64_t first = row * cell.queries, end = std::min(first + cell.queries, head.q_len);
    for (int64_t begin = first; begin < end; begin += kQueries) {
      stop_if_interrupted();
      const Positions queries{.start = begin, .count = std::min(kQueries, end - begin)};
      KeyRange run = mask.next_run(slots[0], queries, 0);
      for (int64_t j = run.begin; j < run.end;) {
        const int64_t column = j / cell.keys;
        const int64_t next = std::min((column + 1) * cell.keys, run.end);
        counts[static_cast<size_t>(column)] +=
            allowed_of(mask, slots[0], queries, {.start = j, .count = next - j}, words);
        j = next;
        if (j < run.end) continue;
        run = mask.next_run(slots[0], queries, j);
        j = run.begin;
      }
    }
    for (int64_t column = 0; column < shares.columns; ++column) {
      const int64_t keys = std::min(cell.keys, head.k_len - column * cell.keys);
      shares.values.push_back(
          static_cast<float>(static_cast<double>(counts[static_cast<size_t>(column)]) /
                             static_cast<double>((end - first) * keys)));
    }
  }
  return shares;
}

}  // namespace rapt::cli
