// Computes the smallest range that holds the key ranges of all heads that read a key matrix.
#include "attention/tiles/attended_rows.h"

#include <algorithm>

#include "attention/tiles/bound_masks.h"

namespace rapt {

template <class E>
KeyRange attended_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                       int64_t s, std::byte* scratch) noexcept {
  const Problem& p = call.problem;
  const Sequence sequence = p.sequence(s);
  if (sequence.q_len == 0) return {0, 0};
  if (call.masks.empty()) return {0, sequence.k_len};
  KeyRange attended{sequence.k_len, 0};
  int64_t index[kMaxRank];
  matrices.first_head(p, matrix, index);
  do {
    const Head place{index, p.leading_rank, sequence.q_len, sequence.k_len, p.leading};
    const BoundMasks bound_masks(call.masks, place,
                                 reinterpret_cast<BoundMask*>(scratch + call.layout.masks));
    const KeyRange range = bound_masks.key_range({0, 1, sequence.q_len});
    if (range.begin >= range.end) continue;
    attended = {std::min(attended.begin, range.begin), std::max(attended.end, range.end)};
  } while (matrices.next_head(p, index));
  return attended;
}

template <class E>
KeyRange attended_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                       std::byte* scratch) noexcept {
  const Problem& p = call.problem;
  KeyRange attended{p.k_len, 0};
  for (int64_t s = 0; s < p.sequences; ++s) {
    const KeyRange range = attended_rows(call, matrices, matrix, s, scratch);
    if (range.begin >= range.end) continue;
    const int64_t first = p.sequence(s).key_begin;
    attended = {std::min(attended.begin, first + range.begin),
                std::max(attended.end, first + range.end)};
  }
  return attended;
}

template KeyRange attended_rows(const ForwardCall<float>&, const KeyMatrices&, int64_t, int64_t,
                                std::byte*) noexcept;
template KeyRange attended_rows(const ForwardCall<double>&, const KeyMatrices&, int64_t, int64_t,
                                std::byte*) noexcept;
template KeyRange attended_rows(const ForwardCall<float>&, const KeyMatrices&, int64_t,
                                std::byte*) noexcept;
template KeyRange attended_rows(const ForwardCall<double>&, const KeyMatrices&, int64_t,
                                std::byte*) noexcept;

}  // namespace rapt
