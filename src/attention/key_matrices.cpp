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

template <class E>
KeyRange seen_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                   std::byte* scratch) noexcept {
  const Problem& p = call.problem;
  if (call.masks.empty()) return {0, p.k_len};
  KeyRange seen{p.k_len, 0};
  for (int64_t head = 0; head < p.heads; ++head) {
    int64_t index[kMaxRank];
    p.index_of(head, index);
    if (matrices.of(index, p.leading_rank) != matrix) continue;
    for (int64_t s = 0; s < p.sequences; ++s) {
      const Sequence sequence = p.sequence(s);
      if (sequence.q_len == 0) continue;
      const Head place{index, p.leading_rank, sequence.q_len, sequence.k_len, p.leading};
      const Visible visible(call.masks, place,
                            reinterpret_cast<BoundMask*>(scratch + call.layout.masks));
      const KeyRange range = visible.key_range({0, 1, sequence.q_len});
      if (range.begin >= range.end) continue;
      seen.begin = std::min(seen.begin, sequence.key_begin + range.begin);
      seen.end = std::max(seen.end, sequence.key_begin + range.end);
    }
  }
  return seen;
}

template KeyRange seen_rows(const ForwardCall<float>&, const KeyMatrices&, int64_t,
                            std::byte*) noexcept;
template KeyRange seen_rows(const ForwardCall<double>&, const KeyMatrices&, int64_t,
                            std::byte*) noexcept;

}  // namespace rapt
