#pragma once
// A prefix: every query may attend to key j where j < length. Combined with a causal mask by Or, it
// makes prefix-LM: every query attends to the prefix, and beyond it causally. Combined with other
// masks by "and", it masks out the keys beyond the prefix.
//
// One length for all, `length`, or one per batch, `lengths`: int64, aligned with the FIRST leading
// dimensions of the output, each dimension equal or 1, as in lengths.h. Not both. A length beyond
// k_len means all keys, so that one prefix serves sequences of any length. (lengths.h, where a
// length is the number of keys that exist, rejects it.) Source: Raffel et al. 2020 (T5),
// arXiv:1910.10683, section 3.2.1.
#include "rapt/mask/mask.h"

namespace rapt {

class Prefix final : public Mask {
 public:
  int64_t length = 0;  // keys that every query may attend to; 0 if `lengths` is given
  TensorView lengths;  // [B] or any prefix of the leading dimensions, int64, >= 0; may be absent

  Prefix() = default;
  explicit Prefix(int64_t count) : length(count) {}
  explicit Prefix(const TensorView& counts) : lengths(counts) {}
  template <TemporaryTensor T>
  explicit Prefix(T&&) = delete;

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
