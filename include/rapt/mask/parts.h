#pragma once
// The parts of a mask that combines other masks: the list of parts, the places of their slots, and
// the limits on the size of such a tree. And, Or and Not use it, and so can a mask of your own.
//
// Slots: the mask's own slot is bound[0]; it is followed by the slots of part 0, then of part 1,
// ...
#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>

#include "rapt/mask/mask.h"

namespace rapt {

// Limits of a tree. Every level needs up to 1.1 KiB of stack, and every mask a slot of 64 bytes per
// thread. Masks written by hand stay far below these limits.
inline constexpr int kMostMaskDepth = 16;  // levels; a mask without parts is one
inline constexpr int kMostMasks = 1024;    // a mask that is a part twice counts twice

// Throws Error(argument) if the tree under `root` exceeds these limits.
void check_tree(const Mask& root);

// Calls visit(mask) for `root` and all masks below it, except null pointers. Throws Error(argument)
// beforehand if the tree is too large, so that the walk always ends.
template <class Visit>
void visit_masks(const Mask& root, Visit&& visit);

class MaskParts {  // pointers to the parts of a mask, and where their slots are
 public:
  static constexpr size_t kMost = 16;  // as in MaskList; combine more than that in steps

  MaskParts() = default;
  // Copies the pointers; the masks must outlive this one, and the number of their slots must not
  // change any more. Throws Error(argument) for more than kMost.
  explicit MaskParts(std::span<const Mask* const> parts);

  std::span<const Mask* const> list() const noexcept { return {masks_, size_}; }
  size_t size() const noexcept { return size_; }
  const Mask& operator[](size_t part) const noexcept { return *masks_[part]; }

  // Checks the tree, then every part. Also throws Error(argument) if there is no part or a null
  // part. `whole` is the mask that is made of these parts.
  void check(const Mask& whole, Shape leading, int64_t q_len, int64_t k_len) const;

  // The number of slots of the whole mask: its own and those of its parts.
  int slots() const noexcept { return slots_; }
  // Binds all parts; `bound` is the slot of the whole mask.
  void bind(const Head& head, BoundMask* bound) const noexcept;
  // The slot of a part, given the slot of the whole mask.
  const BoundMask& slot(const BoundMask& bound, size_t part) const noexcept {
    return (&bound)[offsets_[part]];
  }

 private:
  const Mask* masks_[kMost] = {};
  int offsets_[kMost] = {};  // from the slot of the whole mask to the first slot of each part
  int slots_ = 1;
  size_t size_ = 0;
};

// The next run of keys from `from` on that `count` masks have in common: the keys at which their
// runs overlap. next(i, from) is Mask::next_run() of the ith mask; an answer before `from` counts
// as all keys from there on.
template <class Next>
KeyRange common_run(size_t count, int64_t from, int64_t k_len, const Next& next) noexcept {
  for (;;) {
    KeyRange run{from, k_len};
    for (size_t i = 0; i < count; ++i) {
      KeyRange r = next(i, run.begin);
      if (r.begin >= r.end) return {from, from};
      if (r.end <= run.begin) r = {run.begin, k_len};  // no answer: all keys are left
      run = {std::max(run.begin, r.begin), std::min(run.end, r.end)};
    }
    // A later mask may begin where the run of an earlier one has ended.
    if (run.begin < run.end || run.begin == from) return run;
    from = run.begin;
  }
}

// Any contiguous range of pointers to masks, for the constructors of And and Or.
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
