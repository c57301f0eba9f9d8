#pragma once
// Decoding: few queries per head, and heads that share keys and values (grouped-query attention,
// Ainslie et al. 2023, arXiv:2305.13245). The rows of such a group become the queries of one head,
// head by head,
//
//   query [..., heads, q_len, head_dim]  ->  [..., heads / group, group q_len, head_dim]
//
// so that they fill the lanes of tiles, and keys and values are read once for all of them. No lane
// depends on another, so the results have the bits of the call that was given. Masks see the
// queries of one head (GroupMask); hooks that ask for head or position run once per head
// (tiles/group_lanes.h). Rows that no single stride reaches are copied (tiles/group_rows.h).
#include "attention/call/captures.h"
#include "attention/tiles/bound_masks.h"
#include "kernels/kernel_table.h"

namespace rapt {

// The mask of a grouped call. Row r of a group may attend to the keys to which the masks of the
// given call let query r mod q_len attend.
class GroupMask final : public Mask {
 public:
  static const Declaration kDeclaration;
  // Both must outlive this mask.
  GroupMask(std::span<const Mask* const> masks, const Problem& given, int64_t group) noexcept
      : masks_(masks), given_(given), group_(group) {}

  const Declaration& declaration() const noexcept override { return kDeclaration; }
  std::span<const Mask* const> parts() const noexcept override { return masks_; }
  void check(Shape, int64_t, int64_t) const override {}
  int bound_slots() const noexcept override {
    return 1 + static_cast<int>(BoundMasks::slots(masks_));
  }
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions) const noexcept override {
    return parts_of(bound).key_range(queries());
  }
  KeyRange next_run(const BoundMask& bound, Positions, int64_t from) const noexcept override {
    return parts_of(bound).next_run(queries(), from);
  }
  Cover cover(const BoundMask& bound, Positions rows, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions rows, Positions keys,
               uint64_t* bits) const noexcept override;

 private:
  // Of a head of the given call.
  Positions queries() const noexcept { return {0, 1, given_.q_len}; }
  BoundMasks parts_of(const BoundMask& bound) const noexcept {
    return BoundMasks::of_bound(masks_, &bound + 1, bound.k_len);
  }

  std::span<const Mask* const> masks_;
  const Problem& given_;
  int64_t group_;
};

// The number of neighbouring heads whose queries become rows of one head; 1: the call stays as it
// is. `normalizer`: the hooks of the call.
template <class E>
int64_t heads_of_group(const CheckedCall& call, const NormalizerKernels<E>& normalizer);

// A call whose groups of `heads` heads are heads.
class GroupedCall {
 public:
  // Throws as requested_captures().
  GroupedCall(const CheckedCall& given, int64_t heads);
  const CheckedCall& call() const noexcept { return call_; }
  // The captures in the rows and heads of the given call, for its results.
  const Captures& given_captures() const noexcept { return given_captures_; }
  // The outputs of the given call in the rows of this one.
  Outputs outputs(const Outputs& given) const noexcept;

 private:
  void group_rows(Operand& rows, int64_t queries) const noexcept;
  Problem problem_of(const CheckedCall& given) const;
  AttentionOptions options_of(const CheckedCall& given) const;

  int64_t heads_;
  int last_;  // the dimension of the heads
  GroupMask mask_;
  AttentionOptions options_;
  Captures given_captures_;
  CheckedCall call_;
};

}  // namespace rapt
