#pragma once
// The masks of a call whose keys end with one more than the masks know of: a learned key, which
// every query may attend to (nn.MultiheadAttention's bias_k).
#include <span>

#include "rapt/mask/parts.h"

namespace rapt::nn {

// All of `parts` for the keys before the last one; everything for the last one.
class AppendedKey final : public Mask {
 public:
  explicit AppendedKey(std::span<const Mask* const> parts) : parts_(parts) {}

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

}  // namespace rapt::nn
