#pragma once
// Documents packed into one sequence, by ids: query i may attend to key j where
//   query_ids[i] == key_ids[j].
// An id may be any int64, and ids may come in any order; give padding an id of its own. Without
// key_ids, query_ids is used for both sides, which must then have the same length.
// JAX and Flax call them segment ids. If documents are contiguous and the same for all batches,
// documents_by_starts.h is faster.
//
// Cost, for a tile of q queries and k keys, r runs of equal key ids: bind O(k_len) once per task;
// key_range and cover O(q + log k_len) if the key ids never decrease. Otherwise key_range is all
// keys, cover O(q + k), and next_run O(q + keys passed). exclude O(k + q r).
#include "rapt/mask/mask.h"

namespace rapt {

class Documents final : public Mask {
 public:
  // int64; leading dimensions aligned with the FIRST ones of the output, each equal or 1.
  TensorView query_ids;  // [..., q_len]
  TensorView key_ids;    // [..., k_len], may be absent

  Documents() = default;
  explicit Documents(const TensorView& ids) : query_ids(ids) {}
  Documents(const TensorView& of_queries, const TensorView& of_keys)
      : query_ids(of_queries), key_ids(of_keys) {}
  template <TemporaryTensor T>
  explicit Documents(T&&) = delete;
  template <class Q, TemporaryBeside<Q> K>
  Documents(Q&&, K&&) = delete;

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
};

}  // namespace rapt
