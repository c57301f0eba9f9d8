// Which heads share keys, and which rows of these anybody sees.
#include "attention/key_matrices.h"

#include <algorithm>

#include "attention/visible.h"

namespace rapt {

KeyMatrices::KeyMatrices(const Problem& p, const Operand& o) noexcept
    : heads_per_group(o.heads_per_group) {
  for (int i = p.leading_rank - 1; i >= 0; --i) {
    const int64_t heads = i == p.leading_rank - 1 ? heads_per_group : 1;
    const int64_t matrices =
        o.lead_strides[i] == 0 ? std::min<int64_t>(p.leading[i], 1) : p.leading[i] / heads;
    strides[i] = matrices > 1 ? count : 0;
    count *= matrices;
  }
}

int64_t KeyMatrices::of(const int64_t* index, int rank) const noexcept {
  int64_t matrix = 0;
  for (int i = 0; i + 1 < rank; ++i) matrix += index[i] * strides[i];
  if (rank > 0) matrix += index[rank - 1] / heads_per_group * strides[rank - 1];
  return matrix;
}

void KeyMatrices::first_head(const Problem& p, int64_t matrix, int64_t* index) const noexcept {
  for (int i = 0; i < p.leading_rank; ++i) {
    index[i] = strides[i] > 0 ? matrix / strides[i] : 0;
    matrix -= index[i] * strides[i];
    if (i == p.leading_rank - 1) index[i] *= heads_per_group;
  }
}

bool KeyMatrices::next_head(const Problem& p, int64_t* index) const noexcept {
  for (int i = p.leading_rank; i-- > 0;) {
    const int64_t group = i == p.leading_rank - 1 ? heads_per_group : 1;
    const int64_t sharing = strides[i] > 0 ? group : p.leading[i];
    if (++index[i] % sharing != 0) return true;
    index[i] -= sharing;
  }
  return false;
}

template <class E>
KeyRange seen_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                   int64_t s, std::byte* scratch) noexcept {
  const Problem& p = call.problem;
  const Sequence sequence = p.sequence(s);
  if (sequence.q_len == 0) return {0, 0};
  if (call.masks.empty()) return {0, sequence.k_len};
  KeyRange seen{sequence.k_len, 0};
  int64_t index[kMaxRank];
  matrices.first_head(p, matrix, index);
  do {
    const Head place{index, p.leading_rank, sequence.q_len, sequence.k_len, p.leading};
    const Visible visible(call.masks, place,
                          reinterpret_cast<BoundMask*>(scratch + call.layout.masks));
    const KeyRange range = visible.key_range({0, 1, sequence.q_len});
    if (range.begin >= range.end) continue;
    seen = {std::min(seen.begin, range.begin), std::max(seen.end, range.end)};
  } while (matrices.next_head(p, index));
  return seen;
}

template <class E>
KeyRange seen_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                   std::byte* scratch) noexcept {
  const Problem& p = call.problem;
  KeyRange seen{p.k_len, 0};
  for (int64_t s = 0; s < p.sequences; ++s) {
    const KeyRange range = seen_rows(call, matrices, matrix, s, scratch);
    if (range.begin >= range.end) continue;
    const int64_t first = p.sequence(s).key_begin;
    seen = {std::min(seen.begin, first + range.begin), std::max(seen.end, first + range.end)};
  }
  return seen;
}

template KeyRange seen_rows(const ForwardCall<float>&, const KeyMatrices&, int64_t, int64_t,
                            std::byte*) noexcept;
template KeyRange seen_rows(const ForwardCall<double>&, const KeyMatrices&, int64_t, int64_t,
                            std::byte*) noexcept;
template KeyRange seen_rows(const ForwardCall<float>&, const KeyMatrices&, int64_t,
                            std::byte*) noexcept;
template KeyRange seen_rows(const ForwardCall<double>&, const KeyMatrices&, int64_t,
                            std::byte*) noexcept;

}  // namespace rapt
