#pragma once
// What its one part does not allow.
//
//   rapt::Not future(&causal);
//
// Holds a pointer; the part must outlive it and not be assigned anew. Any mask may be the part, a
// user's own too.
#include "rapt/mask/parts.h"

namespace rapt {

class Not : public Mask {
 public:
  static constexpr size_t kMostParts = 1;

  Not() = default;  // of nothing: check() refuses it
  explicit Not(const Mask* part) : parts_(std::span(&part, 1)) {}

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  std::span<const Mask* const> parts() const noexcept override { return parts_.list(); }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  int bound_slots() const noexcept override { return parts_.slots(); }
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  // Asks its part for the cover of O(log k_len) ranges of keys that amount to at most 4 k_len.
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;

 private:
  MaskParts parts_;
};

}  // namespace rapt
