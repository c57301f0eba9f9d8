#pragma once
// A tree of tokens, for speculative decoding: a query may attend to its own position and to its
// ancestors. The last n keys are the tree's tokens, in any order in which a parent comes before its
// children; the keys before them are the context, a chain that every token descends from. With
// p = i + k_len - q_len, the position of query i among the keys, it may attend to key j where
//   j = p  or  j is the parent of p, or the parent of that, and so on up to key 0,
//   parent of key k_len - n + t = key k_len - n + parents[t], or, where parents[t] = -1, the last
//                                 key of the context
//   parent of a key of the context = the key before it.
// So a chain, parents[t] = t - 1, is causal (bottom-right). A query before the first key attends to
// nothing. Source: Miao et al. 2023 (SpecInfer), arXiv:2305.09781, section 4.
//
// Cost, for a tile of q queries and k keys: key_range and cover O(1); exclude O(k) where the keys
// are the context, and O((k + a) log q) where they are tokens of the tree. a is the number of
// ancestors that the queries have behind the first key; one that several of them share counts once.
// The factor log q is that of a heap with at most one entry per query. Not measured.
#include "rapt/mask/mask.h"

namespace rapt {

class Tree final : public Mask {
 public:
  // int64 [..., n], n at most k_len: the parent of each token, before it in the tree; -1: none.
  // Leading dimensions are aligned with the FIRST ones of the output, each equal or 1.
  TensorView parents;

  Tree() = default;
  explicit Tree(const TensorView& of_tokens) : parents(of_tokens) {}
  template <TemporaryTensor T>
  explicit Tree(T&&) = delete;

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
