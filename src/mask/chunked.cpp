// Chunks; the formula is in the header. Bound: values[0] = o; values[1], values[2] = how many
// positions before and after its chunk a query may attend to (kUnbounded: all).
#include "rapt/mask/chunked.h"

#include <algorithm>

#include "mask/anchored.h"
#include "mask/steps.h"

namespace rapt {
namespace {

constexpr Range kChunks{-1, 9007199254740992.0};  // 2^53: exact as a double

constexpr Parameter kParameters[] = {
    parameter<Chunked, &Chunked::size>("size", "positions of a chunk", {1, 9007199254740992.0}, {},
                                       true),
    parameter<Chunked, &Chunked::back>(
        "back", "chunks before its own that a query may attend to; -1: all", kChunks),
    parameter<Chunked, &Chunked::forward>(
        "forward", "chunks after its own that a query may attend to; -1: all", kChunks),
    parameter<Chunked, &Chunked::anchor>("anchor", "which corner of the matrix the chunks start at",
                                         kAnyNumber, kAnchorNames),
    parameter<Chunked, &Chunked::lengths>(
        "lengths", "int64 [B]: where the bottom-right corner of each batch is, instead of k_len"),
};

constexpr const char* kExamples[] = {"64,1", "5,1,1", "3,-1", "4,0,2,bottom-right", "8"};

int64_t positions_of(int64_t chunks, int64_t size) noexcept {
  return chunks < 0 || chunks > kUnbounded / size ? kUnbounded : chunks * size;
}

// The keys that the query at position p of all may attend to; they may lie beyond all keys.
KeyRange keys_of_chunk(const Chunked& mask, const BoundMask& bound, int64_t p) noexcept {
  const int64_t begin = multiple_below(p, mask.size);
  return {begin - bound.values[1], begin + mask.size + bound.values[2]};
}

}  // namespace

const Declaration Chunked::kDeclaration = {
    "chunked", "a query attends to its chunk of positions and to neighbouring chunks",
    "Kitaev et al. 2020, arXiv:2001.04451, section 2", kParameters, kExamples};

void Chunked::check(Shape leading, int64_t, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  check_anchor("mask chunked: lengths", anchor, lengths, leading, k_len);
}

void Chunked::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = offset_of(anchor, lengths, head, *bound);
  bound->values[1] = positions_of(back, size);
  bound->values[2] = positions_of(forward, size);
}

KeyRange Chunked::key_range(const BoundMask& bound, Positions queries) const noexcept {
  const int64_t o = bound.values[0];
  return {std::clamp<int64_t>(keys_of_chunk(*this, bound, queries.start + o).begin, 0, bound.k_len),
          std::clamp<int64_t>(keys_of_chunk(*this, bound, queries.last() + o).end, 0, bound.k_len)};
}

Cover Chunked::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  const KeyRange of_first = keys_of_chunk(*this, bound, queries.start + bound.values[0]);
  const KeyRange of_last = keys_of_chunk(*this, bound, queries.last() + bound.values[0]);
  if (keys.start >= of_last.end || keys.last() < of_first.begin) return Cover::none;
  return keys.start >= of_last.begin && keys.last() < of_first.end ? Cover::all : Cover::some;
}

void Chunked::exclude(const BoundMask& bound, Positions queries, Positions keys,
                      uint64_t* bits) const noexcept {
  const int64_t start = queries.start + bound.values[0];
  int64_t within = keys.start % size;  // the key's place in its chunk
  for (int64_t j = 0; j < keys.count; ++j) {
    const int64_t p = keys[j] - within - start;  // from the first query to the key's chunk
    bits[j] &= low_bits(queries_before(p + size + bound.values[1], queries)) &
               ~low_bits(queries_before(p - bound.values[2], queries));
    within = next_remainder(within, keys.step, size);
  }
}

}  // namespace rapt
