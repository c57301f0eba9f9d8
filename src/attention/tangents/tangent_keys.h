#pragma once
// Keys and values of a part, each row beside its tangent, so that one product sums over both. The
// code is in the header because it is a template over E.
#include "attention/tangents/tangents.h"
#include "attention/tiles/score_tiles.h"

namespace rapt {

// Scratch of TangentKeys: rows beside their tangents.
template <class E>
struct TangentKeyPlaces {
  Place<E> keys;    // [part][2 head_dim]
  Place<E> values;  // [part][2 value_dim]

  void reserve(GradientScratch<E>& scratch) {
    const int64_t part = key_part(scratch.plan);
    scratch.worker.place(keys, {part, 2 * scratch.problem.head_dim});
    scratch.worker.place(values, {part, 2 * scratch.problem.value_dim});
  }
};

template <class E>
class TangentKeys {
 public:
  enum Rows : uint8_t { kKey, kKeyTangent, kValue, kValueTangent, kRows };

  TangentKeys(const TangentCall<E>& call, const ScoreTiles<E>& tiles)
      : p_(call.problem()),
        in_(call.inputs),
        places_(call.layout.keys),
        block_keys_(call.plan.tiling.block_keys),
        kernels_(call.forward.kernels),
        tiles_(tiles) {}

  // Loads those blocks of the keys that some of the queries attend to; false: there is none. The
  // keys are at most a part, from a multiple of the block length on.
  bool load(Positions keys, Positions queries) noexcept {
    positions_ = keys;
    std::fill(std::begin(loaded_), std::end(loaded_), false);
    for (auto& blocks : finite_) std::fill(std::begin(blocks), std::end(blocks), Finite());
    bool any = false;
    for (KeyWalk walk = tiles_.walk_keys(queries, range_of(keys)); walk.next(); any = true) {
      const int64_t begin = walk.begin(), count = std::min(block_keys_, end() - begin);
      pack_pairs(p_.key, in_.key, p_.head_dim, {begin, 1, count}, places_.keys);
      pack_pairs(p_.value, in_.value, p_.value_dim, {begin, 1, count}, places_.values);
      loaded_[nth_block(begin)] = true;
    }
    return any;
  }

  // Calls visit(keys) for the keys of each loaded block within the range that some of the queries
  // attend to.
  template <class Visit>
  void for_each_block(Positions queries, KeyRange range, const Visit& visit) const noexcept {
    range = {std::max(range.begin, positions_.start), std::min(range.end, end())};
    for (KeyWalk walk = tiles_.walk_keys(queries, range); walk.next();) {
      if (!loaded_[nth_block(walk.begin())]) continue;
      const KeyRange keys = walk.attended();
      visit(Positions{keys.begin, 1, keys.end - keys.begin});
    }
  }

  int64_t first() const noexcept { return positions_.start; }
  int64_t dims_of(Rows which) const noexcept {
    return which == kKey || which == kKeyTangent ? p_.head_dim : p_.value_dim;
  }
  // Rows from this position on, 2 dims apart.
  const E* rows(Rows which, int64_t position) const noexcept {
    const bool of_key = which == kKey || which == kKeyTangent;
    const bool tangent = which == kKeyTangent || which == kValueTangent;
    return tiles_.at(of_key ? places_.keys : places_.values, position - positions_.start) +
           (tangent ? dims_of(which) : 0);
  }
  // Whether all rows of the block that holds these keys are finite.
  bool finite(Rows which, Positions keys) noexcept {
    const int64_t block = nth_block(keys.start);
    return finite_[which][block].known_or([&] {
      const int64_t begin = block * block_keys_;
      return kernels_.route.all_finite(rows(which, positions_.start + begin), 2 * dims_of(which),
                                       std::min(block_keys_, positions_.count - begin),
                                       dims_of(which));
    });
  }

 private:
  int64_t end() const noexcept { return positions_.start + positions_.count; }
  static KeyRange range_of(Positions keys) noexcept {
    return {keys.start, keys.start + keys.count};
  }
  int64_t nth_block(int64_t key) const noexcept { return (key - positions_.start) / block_keys_; }

  // Packs these rows to their places in `rows`, which holds all loaded keys.
  void pack_pairs(const Operand& primal, const Operand& tangent, int64_t dims, Positions keys,
                  const Place<E>& rows) noexcept {
    E* to = tiles_.at(rows, keys.start - positions_.start);
    for (int64_t j = 0; j < keys.count; ++j, to += 2 * dims) {
      const auto pack = [&](const Operand& o, E* row) {
        kernels_.table.fma[static_cast<int>(o.dtype)]->pack_keys(
            tiles_.key_row(o, keys[j]), o.row_stride, o.dim_stride, 1, dims, row);
      };
      pack(primal, to);
      if (tangent.data) pack(tangent, to + dims);
    }
  }

  const Problem& p_;
  const TangentInputs& in_;
  const TangentKeyPlaces<E>& places_;
  const int64_t block_keys_;
  const Kernels<E>& kernels_;
  const ScoreTiles<E>& tiles_;
  Positions positions_ = {0, 1, 0};
  bool loaded_[kBlocksOfPart];
  Finite finite_[kRows][kBlocksOfPart];
};

}  // namespace rapt
