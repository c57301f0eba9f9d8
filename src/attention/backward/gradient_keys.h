#pragma once
// Keys and values of a walk over the queries, in the form that the products of the backward pass
// read. The code is in the header because it is a template over E.
#include "attention/backward/backward.h"
#include "attention/tiles/score_tiles.h"

namespace rapt {

// Rows in the form that the products read.
struct Rows {
  const std::byte* data = nullptr;
  int64_t stride = 0;  // in the route's elements
};

template <class E>
class GradientKeys {
 public:
  GradientKeys(const BackwardCall<E>& call, const ScoreTiles<E>& tiles)
      : p_(call.problem()),
        layout_(call.layout),
        block_keys_(call.plan.tiling.block_keys),
        route_(call.forward.kernels.route),
        tiles_(tiles) {}

  // Loads keys [begin, end), at most pass_keys of them. Blocks are counted from `begin`, which is
  // even. `for_query`: also as operands of d_query sums.
  void load(int64_t begin, int64_t end, bool for_query) noexcept {
    begin_ = begin, end_ = end;
    key_ = multiplied_rows(p_.key, p_.head_dim, layout_.key);
    value_ = multiplied_rows(p_.value, p_.value_dim, layout_.value);
    summed_key_ = key_;  // a route that does not round packs both kinds of rows alike
    if (route_.rounds() && for_query) {
      auto* const packed = tiles_.template scratch<std::byte>(layout_.summed_key);
      route_.pack_values(tiles_.key_row(p_.key, begin), p_.key.row_stride, p_.key.dim_stride,
                         end - begin, p_.head_dim, packed);
      summed_key_ = {packed, packed_stride(p_.head_dim, route_.step)};
    }
    std::fill(std::begin(finite_), std::end(finite_), Finite::unknown);
    for (int64_t at = begin; at < end && tiles_.exact().used(); at += block_keys_) {
      const int64_t count = std::min(block_keys_, end - at), nth = (at - begin) / block_keys_;
      key_outside_[nth] = tiles_.exact().find(tiles_.rows_at(p_.key, at), count, p_.head_dim);
      value_outside_[nth] = tiles_.exact().find(tiles_.rows_at(p_.value, at), count, p_.value_dim);
    }
  }

  // Calls visit(keys) for the blocks of the loaded keys within the range. The range is widened to
  // whole steps of the route, counted from the first loaded key; the added keys are masked out.
  template <class Visit>
  void for_each_block(KeyRange range, const Visit& visit) const noexcept {
    const int64_t odd = route_.step - 1;
    range.begin -= (range.begin - begin_) & odd;
    range.end += -(range.end - begin_) & odd;
    for (int64_t at = begin_; at < end_; at += block_keys_) {
      const int64_t first = std::max(at, range.begin);
      const int64_t last = std::min({at + block_keys_, end_, range.end});
      if (first < last) visit(Positions{first, 1, last - first});
    }
  }

  // Rows from this position on: keys as scores read them, values as d_weights read them, keys as
  // d_query sums read them.
  KeyBlock block_of(Positions keys) const noexcept {
    KeyBlock block;
    block.begin = keys.start, block.end = keys.start + keys.count;
    block.key = from(key_, keys.start).data;
    block.key_stride = key_.stride;
    block.key_outside = outside(key_outside_, keys);
    block.value_outside = outside(value_outside_, keys);
    return block;
  }
  Rows values(int64_t position) const noexcept { return from(value_, position); }
  Rows summed_keys(int64_t position) const noexcept { return from(summed_key_, position); }

  // Which rows of these keys, all in one block, need ExactRows.
  BlockBits keys_outside(Positions keys) const noexcept { return outside(key_outside_, keys); }

  // Whether all keys of the block that holds these keys are finite.
  bool finite(Positions keys) noexcept {
    const int64_t block = (keys.start - begin_) / block_keys_;
    Finite& known = finite_[block];
    if (known == Finite::unknown) {
      const int64_t first = begin_ + block * block_keys_;
      const Rows rows = summed_keys(first);
      known = route_.all_finite(rows.data, rows.stride, std::min(block_keys_, end_ - first),
                                p_.head_dim)
                  ? Finite::yes
                  : Finite::no;
    }
    return known == Finite::yes;
  }

 private:
  static constexpr int kMostBlocks = 16;  // blocks of a walk

  BlockBits outside(const BlockBits* blocks, Positions keys) const noexcept {
    const int64_t nth = (keys.start - begin_) / block_keys_;
    return blocks[nth].part(keys.start - begin_ - nth * block_keys_, keys.count);
  }

  // Rows in the caller's memory, or packed.
  Rows multiplied_rows(const Operand& o, int64_t dims, size_t place) const noexcept {
    const std::byte* rows = tiles_.key_row(o, begin_);
    if (rows_in_place(o, dims, route_)) return {rows, o.row_stride};
    auto* const packed = tiles_.template scratch<std::byte>(place);
    route_.pack_keys(rows, o.row_stride, o.dim_stride, end_ - begin_, dims, packed);
    return {packed, packed_stride(dims, route_.step)};
  }
  Rows from(const Rows& rows, int64_t position) const noexcept {
    return {rows.data + (position - begin_) * rows.stride * route_.element_size, rows.stride};
  }

  const Problem& p_;
  const BackwardLayout& layout_;
  const int64_t block_keys_;
  const RouteKernels<E>& route_;
  const ScoreTiles<E>& tiles_;
  int64_t begin_ = 0, end_ = 0;
  Rows key_, value_, summed_key_;
  Finite finite_[kMostBlocks];
  BlockBits key_outside_[kMostBlocks], value_outside_[kMostBlocks];
};

}  // namespace rapt
