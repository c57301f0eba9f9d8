#pragma once
// The complement of a mask: allows what its one part does not allow.
//
//   rapt::Not future(&causal);
//
// Holds a pointer; the part must outlive it and must not be assigned to. Any mask may be the part,
// also a mask of your own.
#include "rapt/mask/parts.h"

namespace rapt {

class Not : public Mask {
 public:
  static constexpr size_t kMostParts = 1;

  Not() = default;  // without a part; check() rejects it
  explicit Not(const Mask* part) : parts_(std::span(&part, 1)) {}

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  std::span<const Mask* const> parts() const noexcept override { return parts_.list(); }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  int bound_slots() const noexcept override { return parts_.slots(); }
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  // Calls cover() of its part for O(log k_len) ranges of keys, which have at most 4 k_len keys
  // together.
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;

 private:
  MaskParts parts_;
};

}  // namespace rapt
