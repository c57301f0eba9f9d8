// Trees of tokens; the rule is in the header. Bound: values[0] = o, the position of query 0 among
// the keys; values[1] = elements from the tensor's data to the parents of this batch; values[2] =
// keys of the context, before the tree.
#include "rapt/mask/tree.h"

#include <algorithm>
#include <string>

#include "mask/per_batch.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Tree, &Tree::parents>(
        "parents", "int64 [..., n]: the parent of each of the last n keys, before it; -1: none",
        kAnyNumber, {}, true),
};

int64_t tokens_of(const TensorView& parents) noexcept { return parents.shape[parents.rank - 1]; }

}  // namespace

const Declaration Tree::kDeclaration = {
    "tree", "a query attends to itself, its ancestors in a tree of tokens, and the keys before it",
    "Miao et al. 2023, arXiv:2305.09781, section 4", kParameters};

void Tree::check(Shape leading, int64_t, int64_t k_len) const {
  check_per_batch("mask tree: parents", parents, leading, 1);
  const int64_t tokens = tokens_of(parents);
  if (tokens > k_len)
    throw Error(ErrorCode::shape, "mask tree: parents of " + std::to_string(tokens) +
                                      " tokens; expected at most k_len = " + std::to_string(k_len) +
                                      ", as the tree is the last keys");
  int64_t visited = 0;
  for_each_of(parents, [&](int64_t parent) {
    const int64_t token = visited++ % tokens;
    if (parent < -1 || parent >= token)
      throw Error(ErrorCode::argument,
                  "mask tree: the parent of token " + std::to_string(token) + " is " +
                      std::to_string(parent) +
                      "; expected -1 (none) or an earlier token, so that there is no circle");
  });
}

void Tree::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = bound->k_len - bound->q_len;
  bound->values[1] = offset_of(parents, head, 1);
  bound->values[2] = bound->k_len - tokens_of(parents);
}

KeyRange Tree::key_range(const BoundMask& bound, Positions queries) const noexcept {
  return {0, std::clamp<int64_t>(queries.last() + bound.values[0] + 1, 0, bound.k_len)};
}

Cover Tree::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  const int64_t o = bound.values[0];
  if (keys.start > queries.last() + o) return Cover::none;
  const bool context = keys.last() < bound.values[2];
  return context && keys.last() <= queries.start + o ? Cover::all : Cover::some;
}

void Tree::exclude(const BoundMask& bound, Positions queries, Positions keys,
                   uint64_t* bits) const noexcept {
  const int64_t context = bound.values[2], start = queries.start + bound.values[0];
  const auto* const parent = static_cast<const int64_t*>(parents.data) + bound.values[1];
  const int64_t stride = parents.strides[parents.rank - 1];
  int64_t first = 0;  // the first key of the tree
  for (; first < keys.count && keys[first] < context; ++first)
    bits[first] &= ~low_bits(queries_before(keys[first] - start, queries));
  for (int64_t i = 0; first < keys.count && i < queries.count; ++i) {
    int64_t ancestor = start + i * queries.step;  // or the query itself; below context: none left
    for (int64_t j = keys.count; j-- > first;) {
      while (ancestor > keys[j]) {
        const int64_t above = parent[(ancestor - context) * stride];
        ancestor = above < 0 ? context - 1 : context + above;
      }
      if (ancestor != keys[j]) bits[j] &= ~(uint64_t{1} << i);
    }
  }
}

}  // namespace rapt
