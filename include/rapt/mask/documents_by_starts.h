#pragma once
// Contiguous documents, given by the position where each begins: query i may attend to key j if
// both are in the same document, that is, for some document d
//   query_starts[d] <= i < query_starts[d + 1]  and  key_starts[d] <= j < key_starts[d + 1].
// The first start is 0, starts never decrease, and the last is the length of the sequence. A
// document may be empty on one side or both. Without key_starts, query_starts is used for both
// sides, which must then have the same length. All batches and heads have the same starts.
// flash-attention calls them cu_seqlens_q and cu_seqlens_k.
//
// Cost, for D documents and a tile of k keys from d of them: bind nothing; key_range and cover
// O(log D); exclude O(k + d log D).
#include "rapt/mask/mask.h"

namespace rapt {

class DocumentsByStarts final : public Mask {
 public:
  TensorView query_starts;  // [documents + 1], int64
  TensorView key_starts;    // [documents + 1], int64, may be absent

  DocumentsByStarts() = default;
  explicit DocumentsByStarts(const TensorView& starts) : query_starts(starts) {}
  DocumentsByStarts(const TensorView& of_queries, const TensorView& of_keys)
      : query_starts(of_queries), key_starts(of_keys) {}
  template <TemporaryTensor T>
  explicit DocumentsByStarts(T&&) = delete;
  template <class Q, TemporaryBeside<Q> K>
  DocumentsByStarts(Q&&, K&&) = delete;

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;
};

}  // namespace rapt
