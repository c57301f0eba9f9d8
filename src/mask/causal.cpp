// The causal mask; the formula is in the header. Bound: values[0] = o.
#include "rapt/mask/causal.h"

#include <algorithm>

#include "mask/anchored.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Causal, &Causal::anchor>(
        "anchor", "which corner of the matrix the diagonal runs through", kAnyNumber, kAnchorNames),
    parameter<Causal, &Causal::offset>(
        "offset", "keys beyond the diagonal that a query may attend to", kAnyInteger),
    parameter<Causal, &Causal::lengths>(
        "lengths", "int64 [B]: where the bottom-right corner of each batch is, instead of k_len"),
};

constexpr const char* kExamples[] = {"", "bottom-right", "2", "-1"};

}  // namespace

const Declaration Causal::kDeclaration = {
    "causal", "a query attends to the keys up to its own position",
    "Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3", kParameters, kExamples};

void Causal::check(Shape leading, int64_t, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  check_anchor("mask causal: lengths", anchor, lengths, leading, k_len);
}

void Causal::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = offset + offset_of(anchor, lengths, head, *bound);
}

KeyRange Causal::key_range(const BoundMask& bound, Positions queries) const noexcept {
  return {0, std::clamp<int64_t>(queries.last() + bound.values[0] + 1, 0, bound.k_len)};
}

Cover Causal::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  const int64_t o = bound.values[0];
  if (keys.start > queries.last() + o) return Cover::none;
  if (keys.last() <= queries.start + o) return Cover::all;
  return Cover::some;
}

void Causal::exclude(const BoundMask& bound, Positions queries, Positions keys,
                     uint64_t* bits) const noexcept {
  for (int64_t j = 0; j < keys.count; ++j) {
    // Key p is masked out for the queries before position p - o.
    bits[j] &= ~low_bits(queries_before(keys[j] - bound.values[0] - queries.start, queries));
  }
}

}  // namespace rapt
