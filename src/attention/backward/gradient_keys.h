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

// Whether a walk reads these keys or values in the caller's memory. Those far apart are packed once
// and read for every work unit of the walk.
template <class E>
bool walked_in_place(const Operand& rows, int64_t dims, const RouteKernels<E>& route) {
  return rows_in_place(rows, dims, route) && !far_apart(rows, dims);
}

// Scratch of GradientKeys: rows of the route's elements that cannot be read in place.
struct GradientKeyPlaces {
  Place<std::byte> key;         // [pass_keys][head_dim]
  Place<std::byte> value;       // [pass_keys][value_dim]
  Place<std::byte> summed_key;  // [pass_keys][head_dim]: as d_query sums read them, if they differ

  template <class E>
  void reserve(GradientScratch<E>& scratch) {
    const Problem& p = scratch.problem;
    const RouteKernels<E>& route = scratch.kernels.route;
    const int64_t keys = scratch.plan.pass_keys;
    const int64_t key_bytes = scratch.packed_bytes(p.head_dim);
    if (!walked_in_place(p.key, p.head_dim, route)) scratch.worker.place(key, {keys, key_bytes});
    if (!walked_in_place(p.value, p.value_dim, route))
      scratch.worker.place(value, {keys, scratch.packed_bytes(p.value_dim)});
    if (route.rounds() && scratch.wanted.query_sums())
      scratch.worker.place(summed_key, {keys, key_bytes});
  }
};

template <class E>
class GradientKeys {
 public:
  GradientKeys(const BackwardCall<E>& call, const ScoreTiles<E>& tiles)
      : p_(call.problem()),
        key_rows_(call.forward.key),
        places_(call.layout.keys),
        block_keys_(call.plan.tiling.block_keys),
        route_(call.forward.kernels.route),
        tiles_(tiles) {}

  // Loads those blocks of the keys [begin, end), at most pass_keys, that some of the queries attend
  // to; false: there is none. Blocks are counted from `begin`, which is even. `for_query`: also as
  // operands of d_query sums.
  bool load(int64_t begin, int64_t end, Positions queries, bool for_query) noexcept {
    begin_ = begin, end_ = end, loaded_ = 0;
    key_ = place_of(key_rows_, p_.head_dim, places_.key);
    value_ = place_of(p_.value, p_.value_dim, places_.value);
    summed_key_ = key_;  // a route that does not round packs both kinds of rows alike
    if (route_.rounds() && for_query)
      summed_key_ = {tiles_.at(places_.summed_key), packed_stride(p_.head_dim, route_.step)};
    for (KeyWalk walk = tiles_.walk_keys(queries, {begin, end}, begin); walk.next();)
      load_block(walk.begin(), std::min(block_keys_, end - walk.begin()));
    return loaded_ != 0;
  }

  // Whether some of the queries attend to a key of the range that was loaded.
  bool attended_by(Positions queries) const noexcept {
    return tiles_.walk_keys(queries, {begin_, end_}, begin_).next();
  }

  // Calls visit(keys) for the keys of each loaded block within the range that some of the queries
  // attend to. They are widened to whole steps of the route, counted from the first key; the added
  // keys are masked out.
  template <class Visit>
  void for_each_block(Positions queries, KeyRange range, const Visit& visit) const noexcept {
    const int64_t odd = route_.step - 1;
    range = {std::max(begin_, range.begin), std::min(end_, range.end)};
    for (KeyWalk walk = tiles_.walk_keys(queries, range, begin_); walk.next();) {
      if (!(loaded_ >> nth_block(walk.begin()) & 1)) continue;
      KeyRange keys = walk.attended();
      keys.begin -= (keys.begin - begin_) & odd;
      keys.end = std::min(end_, keys.end + (-(keys.end - begin_) & odd));
      visit(Positions{keys.begin, 1, keys.end - keys.begin});
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
    const int64_t block = nth_block(keys.start);
    return finite_[block].known_or([&] {
      const int64_t first = begin_ + block * block_keys_;
      const Rows rows = summed_keys(first);
      return route_.all_finite(rows.data, rows.stride, std::min(block_keys_, end_ - first),
                               p_.head_dim);
    });
  }

 private:
  static constexpr int kMostBlocks = 16;  // blocks of a walk

  int64_t nth_block(int64_t key) const noexcept { return (key - begin_) / block_keys_; }

  void load_block(int64_t begin, int64_t count) noexcept {
    const int64_t nth = nth_block(begin);
    loaded_ |= 1u << nth;
    finite_[nth] = {};
    if (!walked_in_place(key_rows_, p_.head_dim, route_))
      pack(key_rows_, p_.head_dim, begin, count, route_.pack_keys, key_);
    if (!walked_in_place(p_.value, p_.value_dim, route_))
      pack(p_.value, p_.value_dim, begin, count, route_.pack_keys, value_);
    if (summed_key_.data != key_.data)
      pack(key_rows_, p_.head_dim, begin, count, route_.pack_values, summed_key_);
    if (!tiles_.exact().used()) return;
    key_outside_[nth] = tiles_.exact().find(tiles_.rows_at(key_rows_, begin), count, p_.head_dim);
    value_outside_[nth] = tiles_.exact().find(tiles_.rows_at(p_.value, begin), count, p_.value_dim);
  }

  BlockBits outside(const BlockBits* blocks, Positions keys) const noexcept {
    const int64_t nth = nth_block(keys.start);
    return blocks[nth].part(keys.start - begin_ - nth * block_keys_, keys.count);
  }

  // Where the rows lie from the first key on: in the caller's memory, or packed.
  Rows place_of(const Operand& o, int64_t dims, const Place<std::byte>& packed) const noexcept {
    if (walked_in_place(o, dims, route_)) return {tiles_.key_row(o, begin_), o.row_stride};
    return {tiles_.at(packed), packed_stride(dims, route_.step)};
  }
  template <class Pack>
  void pack(const Operand& o, int64_t dims, int64_t begin, int64_t count, Pack pack_rows,
            const Rows& to) const noexcept {
    pack_rows(tiles_.key_row(o, begin), o.row_stride, o.dim_stride, count, dims,
              const_cast<std::byte*>(from(to, begin).data));
  }
  Rows from(const Rows& rows, int64_t position) const noexcept {
    return {rows.data + (position - begin_) * rows.stride * route_.element_size, rows.stride};
  }

  const Problem& p_;
  const Operand& key_rows_;
  const GradientKeyPlaces& places_;
  const int64_t block_keys_;
  const RouteKernels<E>& route_;
  const ScoreTiles<E>& tiles_;
  int64_t begin_ = 0, end_ = 0;
  uint32_t loaded_ = 0;  // bit n: the nth block is loaded
  Rows key_, value_, summed_key_;
  Finite finite_[kMostBlocks];
  BlockBits key_outside_[kMostBlocks], value_outside_[kMostBlocks];
};

}  // namespace rapt
