#pragma once
// The rows of a key block in the form that the products read: in the caller's memory, packed once
// per call (packed_keys.h), or packed into the worker's scratch one block at a time. The code is in
// the header because it is a template over E.
#include <new>

#include "attention/tiles/cached_rows.h"
#include "attention/tiles/packed_keys.h"
#include "attention/tiles/query_tile.h"
#include "base/rare.h"

namespace rapt {

enum class Values : uint8_t { skip, load };

// Rows of a key block for a route that reads runs.
using RowRuns = RowRun[kMostBlockKeys / kRunRows + kRunsAhead];

// Where key blocks that the products cannot read in the caller's memory lie.
struct KeyBlockPlaces {
  Place<std::byte> key;  // [block_keys][head_dim] of the route's elements, if packed block by block
  Place<std::byte> value;         // [block_keys][value_dim], the same of values
  Place<std::byte> cached_key;    // [block_keys][head_dim] as stored, from several pages of a cache
  Place<std::byte> cached_value;  // [block_keys][value_dim]
  PackedPlaces packed_key, packed_value;

  template <class E>
  void reserve(ScratchPlan<E>& plan) {
    const Problem& p = plan.problem;
    const RouteKernels<E>& route = plan.kernels.route;
    if (rare(plan.tiling.packs_ahead)) {
      packed_key.reserve(plan, p.key, p.head_dim);
      packed_value.reserve(plan, p.value, p.value_dim);
      return;
    }
    const int64_t keys = plan.tiling.block_keys;
    if (p.pages.used()) {
      plan.worker.place(cached_key, {keys, plan.stored_bytes(p.head_dim)});
      plan.worker.place(cached_value, {keys, plan.stored_bytes(p.value_dim)});
    }
    if (rare(!keys_in_place(p, route)))
      plan.worker.place(key, {keys, plan.packed_bytes(p.head_dim)});
    if (rare(!values_in_place(p, route)))
      plan.worker.place(value, {keys, plan.packed_bytes(p.value_dim)});
  }
};

template <class E>
class KeyBlocks {
 public:
  // `scratch`: the worker's.
  KeyBlocks(const ForwardCall<E>& call, const ExactRows<E>& exact, std::byte* scratch) noexcept
      : call_(call),
        p_(call.problem),
        route_(call.kernels.route),
        exact_(exact),
        scratch_(scratch),
        packed_keys_(packed_keys(call)),
        packed_values_(packed_values(call)) {}

  bool packed_per_call() const noexcept { return packed_keys_.used(); }

  // Selects a sequence of a head; `keys` and `values` are its first rows.
  void begin_head(const int64_t* index, const Sequence& at, int64_t sequence, const RowsAt& keys,
                  const RowsAt& values) noexcept {
    keys_ = keys, values_ = values;
    if (p_.pages.used()) {
      cached_keys_ = {p_.pages, keys, p_.pages.key_stride, at.cached};
      cached_values_ = {p_.pages, values, p_.pages.value_stride, at.cached};
    }
    packed_keys_.begin_head(index, at.key_begin, sequence);
    packed_values_.begin_head(index, at.key_begin, sequence);
  }

  // The address of a row of values.
  std::byte* value_row(int64_t key) const noexcept {
    return p_.pages.used() ? cached_values_.at(key) : values_.from(key).data;
  }

  // The operand of the products for `count` keys, or values, of a block from its row `first` on:
  // the address of the first row, or `runs`, which are written. Runs that cross pages are copied to
  // scratch and remain until the next call of the same function; those of values until finite().
  const void* keys_of(const KeyBlock& block, int64_t first, int64_t count,
                      RowRuns& runs) const noexcept {
    if (!rare(route_.reads_runs)) return block.key + first * block.key_stride * route_.element_size;
    return runs_of(keys_, cached_keys_, block.begin + first, count, p_.head_dim,
                   call_.layout.blocks.cached_key, runs);
  }
  const void* values_of(const KeyBlock& block, int64_t first, int64_t count,
                        RowRuns& runs) const noexcept {
    if (!rare(route_.reads_runs))
      return block.value + first * block.value_stride * route_.element_size;
    return runs_of(values_, cached_values_, block.begin + first, count, p_.value_dim,
                   call_.layout.blocks.cached_value, runs);
  }

  // Loads the keys `attended` of the block [begin, end) of the sequence; with Values::skip without
  // their values. A route that reads runs needs no rows of a block.
  KeyBlock load(int64_t begin, int64_t end, KeyRange attended, Values values) const noexcept {
    const int64_t count = end - begin, odd = route_.step - 1;
    KeyBlock block;
    block.begin = begin, block.end = end;
    block.attended = attended;
    block.loaded = {attended.begin - ((attended.begin - begin) & odd),
                    std::min(end, attended.end + (-(attended.end - begin) & odd))};
    if (packed_per_call()) {
      block.key = packed_keys_.at(begin);
      block.key_stride = packed_stride(p_.head_dim, route_.step);
      block.key_outside = packed_keys_.outside(begin, count);
      if (values == Values::skip) return block;
      block.value = packed_values_.at(begin);
      block.value_stride = packed_stride(p_.value_dim, route_.step);
      block.value_outside = packed_values_.outside(begin, count);
      return block;
    }
    if (rare(route_.reads_runs)) return block;
    // Built in place: a copy would wait for the stores of its members.
    const RowsAt& key = *new (&block.key_rows) RowsAt(rows_of_keys(begin, count));
    block.key = key.data, block.key_stride = key.row_stride;
    if (rare(!keys_in_place(p_, route_))) {
      std::byte* const packed = call_.layout.blocks.key.in(scratch_);
      block.key_stride = packed_stride(p_.head_dim, route_.step);
      pack(block, key, p_.head_dim, route_.pack_keys, packed, block.key_stride);
      block.key = packed;
    }
    if (exact_.used()) block.key_outside = exact_.find(key, count, p_.head_dim);
    if (values == Values::skip) return block;
    const RowsAt& value = *new (&block.value_rows) RowsAt(rows_of_values(begin, count));
    block.value = value.data, block.value_stride = value.row_stride;
    if (rare(!values_in_place(p_, route_))) {
      std::byte* const packed = call_.layout.blocks.value.in(scratch_);
      block.value_stride = packed_stride(p_.value_dim, route_.step);
      pack(block, value, p_.value_dim, route_.pack_values, packed, block.value_stride);
      block.value = packed;
    }
    if (exact_.used()) block.value_outside = exact_.find(value, count, p_.value_dim);
    return block;
  }

  // Whether all loaded values of the block are finite. The answer is computed once for all tiles
  // that attend to the block. A route with ExactRows packs elements that are not finite as 0.
  bool finite(KeyBlock& block) const noexcept {
    return block.finite.known_or([&] {
      const int64_t first = block.loaded.begin - block.begin;
      const int64_t count = block.loaded.end - block.loaded.begin;
      if (!route_.reads_runs)
        return exact_.used() ||
               route_.all_finite(block.value + first * block.value_stride * route_.element_size,
                                 block.value_stride, count, p_.value_dim);
      RowRuns runs;
      values_of(block, first, count, runs);
      bool finite = true;
      for (int64_t row = 0; row < count && finite; row += kRunRows) {
        const RowRun& run = runs[row / kRunRows];
        finite =
            route_.all_finite(run.rows, run.stride, std::min(kRunRows, count - row), p_.value_dim);
      }
      return finite;
    });
  }

 private:
  // Packs the loaded rows of a block, whose rows as stored are `from`, to their places in `to`.
  template <class Pack>
  void pack(const KeyBlock& block, const RowsAt& from, int64_t dims, Pack pack_rows, std::byte* to,
            int64_t stride) const noexcept {
    const int64_t first = block.loaded.begin - block.begin;
    const RowsAt rows = from.from(first);
    pack_rows(rows.data, rows.row_stride, rows.dim_stride, block.loaded.end - block.loaded.begin,
              dims, to + first * stride * route_.element_size);
  }

  const RowRun* runs_of(const RowsAt& rows, const CachedRows& cached, int64_t begin, int64_t count,
                        int64_t dims, const Place<std::byte>& copies,
                        RowRuns& runs) const noexcept {
    if (p_.pages.used()) {
      cached.runs(begin, count, dims, copies.in(scratch_), runs);
    } else {
      const int64_t all = (count + kRunRows - 1) / kRunRows + kRunsAhead;
      for (int64_t n = 0; n < all; ++n)
        runs[n] = {rows.from(begin + n * kRunRows).data, rows.row_stride};
    }
    return runs;
  }
  RowsAt rows_of_keys(int64_t begin, int64_t count) const noexcept {
    if (!p_.pages.used()) return keys_.from(begin);
    return cached_keys_.rows(begin, count, p_.head_dim,
                             call_.layout.blocks.cached_key.in(scratch_));
  }
  RowsAt rows_of_values(int64_t begin, int64_t count) const noexcept {
    if (!p_.pages.used()) return values_.from(begin);
    return cached_values_.rows(begin, count, p_.value_dim,
                               call_.layout.blocks.cached_value.in(scratch_));
  }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const RouteKernels<E>& route_;
  const ExactRows<E>& exact_;
  std::byte* scratch_;
  PackedRows<E> packed_keys_, packed_values_;
  RowsAt keys_, values_;  // of the first key of the sequence; in a cache, of the first page
  CachedRows cached_keys_, cached_values_;
};

}  // namespace rapt
