#pragma once
// Any layout of blocks, as lists. Queries are cut into rows of query_block positions, keys into
// blocks of key_block. Query i may attend to key j where the list of row i / query_block holds the
// block j / key_block. The list of row P is indices[starts[P]], ..., indices[starts[P + 1] - 1].
// Lists go up, and rows without a list attend to nothing. Heads may share lists.
//
// A layout with partial blocks, whose pairs another mask decides, is two of these masks:
//   rapt::And partial{&partial_blocks, &pairs};
//   rapt::Or layout{&full_blocks, &partial};
// rapt/block_layout.h makes the lists from a boolean matrix, from FlexAttention's BlockMask and
// from BigBird's adjacency.
//
// Cost, for a tile that touches r rows: key_range, next_run and cover O(r log(length of a list));
// exclude the same and O(r keys). check() reads all lists, once per call.
#include "rapt/mask/mask.h"

namespace rapt {

class Blocks final : public Mask {
 public:
  int64_t query_block = 0;  // queries per row, >= 1
  int64_t key_block = 0;    // keys per block, >= 1
  // int64; leading dimensions aligned with the FIRST ones of the output, each equal or 1. Numbers
  // of rows of q_len / query_block, rounded up, and one more.
  TensorView starts;   // [..., rows + 1]
  TensorView indices;  // int64 [n], the lists of all heads

  Blocks() = default;  // without lists; check() rejects it
  Blocks(int64_t queries, int64_t keys, const TensorView& list_starts,
         const TensorView& list_indices)
      : query_block(queries), key_block(keys), starts(list_starts), indices(list_indices) {}
  template <class S, TemporaryBeside<S> I>
  Blocks(int64_t, int64_t, S&&, I&&) = delete;

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  KeyRange next_run(const BoundMask& bound, Positions queries,
                    int64_t from) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;
  int64_t query_group() const noexcept override { return query_block; }
};

}  // namespace rapt
