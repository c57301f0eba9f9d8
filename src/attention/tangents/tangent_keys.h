#pragma once
// Keys and values of a part, each row beside its tangent, so that one product sums over both. The
// code is in the header because it is a template over E.
#include "attention/tangents/tangents.h"
#include "attention/tiles/score_tiles.h"

namespace rapt {

template <class E>
class TangentKeys {
 public:
  enum Rows : uint8_t { kKey, kKeyTangent, kValue, kValueTangent, kRows };

  TangentKeys(const TangentCall<E>& call, const ScoreTiles<E>& tiles)
      : p_(call.problem()),
        in_(call.inputs),
        layout_(call.layout),
        block_keys_(call.plan.tiling.block_keys),
        kernels_(call.forward.kernels),
        tiles_(tiles) {}

  // Loads keys: at most a part, from a multiple of the block length on.
  void load(Positions keys) noexcept {
    positions_ = keys;
    pack_pairs(p_.key, in_.key, p_.head_dim, scratch(layout_.keys));
    pack_pairs(p_.value, in_.value, p_.value_dim, scratch(layout_.values));
    for (auto& blocks : finite_) std::fill(std::begin(blocks), std::end(blocks), Finite::unknown);
  }

  // Calls visit(keys) for the blocks of the loaded keys within the range.
  template <class Visit>
  void for_each_block(KeyRange range, const Visit& visit) const noexcept {
    const int64_t end = positions_.start + positions_.count;
    for (int64_t at = positions_.start; at < end; at += block_keys_) {
      const int64_t first = std::max(at, range.begin);
      const int64_t last = std::min({at + block_keys_, end, range.end});
      if (first < last) visit(Positions{first, 1, last - first});
    }
  }

  int64_t first() const noexcept { return positions_.start; }
  int64_t dims_of(Rows which) const noexcept {
    return which == kKey || which == kKeyTangent ? p_.head_dim : p_.value_dim;
  }
  // Rows from this position on, 2 dims apart.
  const E* rows(Rows which, int64_t position) const noexcept {
    const int64_t dims = dims_of(which), at = 2 * (position - positions_.start) * dims;
    switch (which) {
      case kKey:
        return scratch(layout_.keys) + at;
      case kKeyTangent:
        return scratch(layout_.keys) + at + dims;
      case kValue:
        return scratch(layout_.values) + at;
      default:
        return scratch(layout_.values) + at + dims;
    }
  }
  // Whether all rows of the block that holds these keys are finite.
  bool finite(Rows which, Positions keys) noexcept {
    const int64_t block = (keys.start - positions_.start) / block_keys_;
    Finite& known = finite_[which][block];
    if (known == Finite::unknown) {
      const int64_t begin = block * block_keys_;
      const int64_t count = std::min(block_keys_, positions_.count - begin);
      known = kernels_.route.all_finite(rows(which, positions_.start + begin), 2 * dims_of(which),
                                        count, dims_of(which))
                  ? Finite::yes
                  : Finite::no;
    }
    return known == Finite::yes;
  }

 private:
  E* scratch(size_t offset) const noexcept { return tiles_.template scratch<E>(offset); }

  void pack_pairs(const Operand& primal, const Operand& tangent, int64_t dims, E* to) noexcept {
    for (int64_t j = 0; j < positions_.count; ++j, to += 2 * dims) {
      const auto pack = [&](const Operand& o, E* row) {
        kernels_.table.fma[static_cast<int>(o.dtype)]->pack_keys(
            tiles_.key_row(o, positions_[j]), o.row_stride, o.dim_stride, 1, dims, row);
      };
      pack(primal, to);
      if (tangent.data) pack(tangent, to + dims);
    }
  }

  const Problem& p_;
  const TangentInputs& in_;
  const TangentLayout& layout_;
  const int64_t block_keys_;
  const Kernels<E>& kernels_;
  const ScoreTiles<E>& tiles_;
  Positions positions_ = {0, 1, 0};
  Finite finite_[kRows][kBlocksOfPart];
};

}  // namespace rapt
