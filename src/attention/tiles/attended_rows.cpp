// Asks the masks of all heads that read a key matrix.
#include "attention/tiles/attended_rows.h"

#include <algorithm>

#include "attention/tiles/key_walk.h"
#include "attention/tiles/tile_places.h"

namespace rapt {
namespace {

// Calls visit(masks) with the masks of each head that reads the matrix, bound to a sequence.
template <class E, class Visit>
void for_each_head(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                   const Sequence& sequence, std::byte* scratch, const Visit& visit) noexcept {
  const Problem& p = call.problem;
  int64_t index[kMaxRank];
  matrices.first_head(p, matrix, index);
  do {
    const Head place{index, p.leading_rank, sequence.q_len, sequence.k_len, p.leading};
    visit(BoundMasks(call.masks, place, call.layout.masks.in_or_null(scratch)));
  } while (!call.masks.empty() && matrices.next_head(p, index));
}

}  // namespace

template <class E>
uint64_t attended_blocks(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                         const BlockSpan& blocks, std::byte* scratch) noexcept {
  const Sequence sequence = call.problem.sequence(blocks.sequence);
  if (sequence.q_len == 0) return 0;
  const int64_t length = call.tiling.block_keys;
  const KeyRange keys{blocks.first * length,
                      std::min((blocks.first + blocks.count) * length, sequence.k_len)};
  uint64_t attended = 0;
  for_each_head(call, matrices, matrix, sequence, scratch, [&](const BoundMasks& masks) {
    for (KeyWalk walk(masks, {0, 1, sequence.q_len}, keys, length, keys.begin); walk.next();)
      attended |= uint64_t{1} << ((walk.begin() - keys.begin) / length);
  });
  return attended;
}

template <class E>
KeyRange attended_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                       std::byte* scratch) noexcept {
  const Problem& p = call.problem;
  KeyRange attended{p.k_len, 0};
  for (int64_t s = 0; s < p.sequences; ++s) {
    const Sequence sequence = p.sequence(s);
    if (sequence.q_len == 0) continue;
    for_each_head(call, matrices, matrix, sequence, scratch, [&](const BoundMasks& masks) {
      const KeyRange range = masks.key_range({0, 1, sequence.q_len});
      if (range.begin < range.end)
        attended = {std::min(attended.begin, sequence.key_begin + range.begin),
                    std::max(attended.end, sequence.key_begin + range.end)};
    });
  }
  return attended;
}

template uint64_t attended_blocks(const ForwardCall<float>&, const KeyMatrices&, int64_t,
                                  const BlockSpan&, std::byte*) noexcept;
template uint64_t attended_blocks(const ForwardCall<double>&, const KeyMatrices&, int64_t,
                                  const BlockSpan&, std::byte*) noexcept;
template KeyRange attended_rows(const ForwardCall<float>&, const KeyMatrices&, int64_t,
                                std::byte*) noexcept;
template KeyRange attended_rows(const ForwardCall<double>&, const KeyMatrices&, int64_t,
                                std::byte*) noexcept;

}  // namespace rapt
