#pragma once
// Masks that are made of masks: the list of parts, where their slots are, and how large such a tree
// may be. What And, Or and Not stand on, and a mask of your own that combines others may.
//
// Slots: the mask's own is bound[0]; behind it lie those of part 0, then those of part 1, ...
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>

#include "rapt/mask/mask.h"

namespace rapt {

// Bounds of a tree. Every level takes up to 1.1 KiB of stack, and every mask a slot of 64 bytes per
// thread; nobody has yet written a mask by hand that came near.
inline constexpr int kMostMaskDepth = 16;  // levels; a mask without parts is one
inline constexpr int kMostMasks = 1024;    // a mask that stands at two places counts twice

// Throws Error(argument) when the tree under `root` exceeds these bounds.
void check_tree(const Mask& root);

// Calls visit(mask) for `root` and everything below it; null pointers are left out. Throws
// Error(argument) beforehand when the tree is too large, so that the walk always ends.
template <class Visit>
void visit_masks(const Mask& root, Visit&& visit);

class MaskParts {  // pointers to the parts of a mask, and where their slots are
 public:
  static constexpr size_t kMost = 16;  // as many as a call takes; further ones go into a part

  MaskParts() = default;
  // Copies the pointers; the masks must outlive this one, and the number of their slots must not
  // change any more. Throws Error(argument) for more than kMost.
  explicit MaskParts(std::span<const Mask* const> parts);

  std::span<const Mask* const> list() const noexcept { return {masks_, size_}; }
  size_t size() const noexcept { return size_; }
  const Mask& operator[](size_t part) const noexcept { return *masks_[part]; }

  // Checks the tree, then every part. Throws Error(argument) also for no part and a null one;
  // `whole` is the mask that is made of these parts.
  void check(const Mask& whole, Shape leading, int64_t q_len, int64_t k_len) const;

  // The slots of the whole: its own and those of its parts.
  int slots() const noexcept { return slots_; }
  // Binds all parts; `bound` is the slot of the whole.
  void bind(const Head& head, BoundMask* bound) const noexcept;
  // The slot of a part, given that of the whole.
  const BoundMask& slot(const BoundMask& bound, size_t part) const noexcept {
    return (&bound)[offsets_[part]];
  }

 private:
  const Mask* masks_[kMost] = {};
  int offsets_[kMost] = {};  // of a part's first slot from the slot of the whole
  int slots_ = 1;
  size_t size_ = 0;
};

// What a constructor of And and Or takes: any contiguous range of pointers.
template <class Range>
concept MaskPointers = std::is_convertible_v<const Range&, std::span<const Mask* const>>;

namespace detail {
template <class Visit>
void visit_below(const Mask& root, Visit& visit) {
  visit(root);
  for (const Mask* part : root.parts())
    if (part) visit_below(*part, visit);
}
}  // namespace detail

template <class Visit>
void visit_masks(const Mask& root, Visit&& visit) {
  check_tree(root);
  detail::visit_below(root, visit);
}

}  // namespace rapt
