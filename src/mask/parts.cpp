// The parts of combined masks: their slots, and the bounds of a tree.
#include "rapt/mask/parts.h"

#include <algorithm>

namespace rapt {
namespace {

// Adds the number of masks in the tree under `mask` to `count`. Throws as soon as a bound is
// exceeded: several pointers may refer to one mask, so a few masks can make a tree of 16^16 places.
void count_tree(const Mask& mask, int depth, int& count) {
  if (depth > kMostMaskDepth)
    throw Error(ErrorCode::argument, std::string("mask ") + mask.declaration().name +
                                         ": nested deeper than " + std::to_string(kMostMaskDepth) +
                                         " levels; combine in fewer levels");
  if (++count > kMostMasks)
    throw Error(ErrorCode::argument, "masks: a combination of more than " +
                                         std::to_string(kMostMasks) +
                                         " masks; write one mask of your own instead");
  for (const Mask* part : mask.parts())
    if (part) count_tree(*part, depth + 1, count);
}

}  // namespace

void check_tree(const Mask& root) {
  int count = 0;
  count_tree(root, 1, count);
}

MaskParts::MaskParts(std::span<const Mask* const> parts) {
  // Far above kMostMasks, so check() rejects such a tree, and no sum overflows.
  constexpr int kMostSlots = 1 << 20;
  if (parts.size() > kMost)
    throw Error(ErrorCode::argument, std::to_string(parts.size()) +
                                         " parts of a mask; it takes at most " +
                                         std::to_string(kMost) + ", combine some of them first");
  for (const Mask* part : parts) {
    masks_[size_] = part;
    offsets_[size_++] = slots_;
    if (part) slots_ = std::min(kMostSlots, slots_ + std::min(kMostSlots, part->bound_slots()));
  }
}

void MaskParts::check(const Mask& whole, Shape leading, int64_t q_len, int64_t k_len) const {
  const auto name = [&] { return std::string("mask ") + whole.declaration().name; };
  if (size_ == 0)
    throw Error(ErrorCode::argument, name() + ": it has no parts; expected at least one mask");
  for (size_t i = 0; i < size_; ++i)
    if (!masks_[i])
      throw Error(ErrorCode::argument,
                  name() + ": part " + std::to_string(i) + " is a null pointer");
  check_tree(whole);
  if (MaskParts(list()).slots_ != slots_)
    throw Error(ErrorCode::argument,
                name() + ": a part was assigned anew and takes other room; combine them again");
  for (const Mask* part : list()) part->check(leading, q_len, k_len);
}

void MaskParts::bind(const Head& head, BoundMask* bound) const noexcept {
  for (size_t i = 0; i < size_; ++i) {
    BoundMask* const slot = bound + offsets_[i];
    *slot = BoundMask{masks_[i], nullptr, {}, head.q_len, head.k_len};
    masks_[i]->bind(head, slot);
  }
}

}  // namespace rapt
