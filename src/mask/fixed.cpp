// The fixed pattern; the formula is in the header. Bound: values[0] = o.
#include "rapt/mask/fixed.h"

#include <algorithm>
#include <string>

#include "mask/anchored.h"
#include "mask/steps.h"

namespace rapt {
namespace {

constexpr Range kFixedCount{1, 9007199254740992.0};  // 2^53: exact as a double

constexpr Parameter kParameters[] = {
    parameter<Fixed, &Fixed::stride>("stride", "positions of a block", kFixedCount, {}, true),
    parameter<Fixed, &Fixed::summary>(
        "summary", "the last positions of a block, which all later queries may attend to",
        kFixedCount, {}, true),
    parameter<Fixed, &Fixed::anchor>(
        "anchor", "which corner of the matrix the diagonal runs through", kAnyNumber, kAnchorNames),
    parameter<Fixed, &Fixed::lengths>(
        "lengths", "int64 [B]: where the bottom-right corner of each batch is, instead of k_len"),
};

constexpr const char* kExamples[] = {"128,8", "4,1", "7,2,bottom-right", "3,3"};

}  // namespace

const Declaration Fixed::kDeclaration = {
    "fixed", "a query attends to its block and to the last positions of every block before it",
    "Child et al. 2019, arXiv:1904.10509, section 4.3", kParameters, kExamples};

void Fixed::check(Shape leading, int64_t, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  if (summary > stride)
    throw Error(ErrorCode::argument, "mask fixed: the last " + std::to_string(summary) +
                                         " positions of blocks of " + std::to_string(stride) +
                                         "; expected a summary of at most the stride");
  check_anchor("mask fixed: lengths", anchor, lengths, leading, k_len);
}

void Fixed::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = offset_of(anchor, lengths, head, *bound);
}

KeyRange Fixed::key_range(const BoundMask& bound, Positions queries) const noexcept {
  const KeyRange first = next_run(bound, queries, 0);
  if (first.begin >= first.end) return {0, 0};
  return {first.begin, std::min(queries.last() + bound.values[0] + 1, bound.k_len)};
}

KeyRange Fixed::next_run(const BoundMask& bound, Positions queries, int64_t from) const noexcept {
  // All keys of the block of the first query and behind it, and the summaries before it.
  const int64_t first = std::max<int64_t>(queries.start + bound.values[0], 0);
  const int64_t own = summary == stride ? 0 : multiple_below(first, stride);
  const KeyRange rest{own, queries.last() + bound.values[0] + 1};
  if (from >= own || rest.end <= own) return part_of_run(rest, from, bound.k_len);
  const int64_t next_block = multiple_below(from, stride) + stride;
  const int64_t end = next_block == own ? rest.end : next_block;
  return part_of_run({next_block - summary, end}, from, bound.k_len);
}

Cover Fixed::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  const int64_t last = queries.last() + bound.values[0];
  const int64_t first = queries.start + bound.values[0];
  if (keys.start > last) return Cover::none;
  const auto in_summary = [&](int64_t key) { return key % stride >= stride - summary; };
  const int64_t own = multiple_below(std::max<int64_t>(first, 0), stride);  // the first one's block
  if (keys.last() < own && !in_summary(keys.start) &&
      multiple_below(keys.start, stride) + stride - summary > keys.last())
    return Cover::none;
  if (keys.last() > first) return Cover::some;
  // Keys of the block of all queries are allowed; others must be those of one summary, or all be.
  const bool one_block = last < own + stride;
  if (one_block && keys.start >= own) return Cover::all;
  const int64_t others = one_block ? std::min(keys.last(), own - 1) : keys.last();
  const bool all = summary == stride ||
                   (in_summary(keys.start) && others < multiple_below(keys.start, stride) + stride);
  return all ? Cover::all : Cover::some;
}

void Fixed::exclude(const BoundMask& bound, Positions queries, Positions keys,
                    uint64_t* bits) const noexcept {
  const int64_t start = queries.start + bound.values[0];
  int64_t within = keys.start % stride;  // the key's place in its block
  for (int64_t j = 0; j < keys.count; ++j) {
    const int64_t p = keys[j] - start;  // from the first query to the key
    bits[j] &= ~low_bits(queries_before(p, queries));
    if (within < stride - summary)
      bits[j] &= low_bits(queries_before(p - within + stride, queries));
    within = next_remainder(within, keys.step, stride);
  }
}

}  // namespace rapt
