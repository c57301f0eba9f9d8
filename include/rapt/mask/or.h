#pragma once
// Masks combined by "or": allows what at least one of its parts allows. Prefix-LM, for example:
// every query attends to the prefix, and beyond it causally:
//
//   rapt::Or prefix_lm{&causal, &prefix};
//
// Holds 1 to 16 pointers. The parts must outlive it, and must not be assigned to while they are
// parts (another And may need more slots). Any mask may be a part, also a mask of your own.
#include "rapt/mask/parts.h"

namespace rapt {

class Or : public Mask {
 public:
  static constexpr size_t kMostParts = MaskParts::kMost;

  Or() = default;  // without parts; check() rejects it
  Or(std::initializer_list<const Mask*> parts) : Or(std::span(parts.begin(), parts.size())) {}
  template <MaskPointers Range>
  explicit Or(const Range& parts) : parts_(parts) {}

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  std::span<const Mask* const> parts() const noexcept override { return parts_.list(); }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  int bound_slots() const noexcept override { return parts_.slots(); }
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  KeyRange next_run(const BoundMask& bound, Positions queries,
                    int64_t from) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;

 private:
  MaskParts parts_;
};

}  // namespace rapt
