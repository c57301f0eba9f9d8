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

// The paths of up to 64 queries from their own positions up to their ancestors. Paths that meet are
// joined, so that each key is climbed from once.
class AncestorPaths {
 public:
  void begin(int64_t position, int query) noexcept { put({position, uint64_t{1} << query}); }

  // Climbs every path to its first key at or before `key`, and returns the queries whose path leads
  // through `key`. From call to call, `key` falls.
  template <class ParentOf>
  uint64_t through(int64_t key, const ParentOf& parent_of) noexcept {
    while (paths_[0].key > key) {
      Path path = take_last();
      path.key = parent_of(path.key);
      put(path);
    }
    if (paths_[0].key < key) return 0;
    const Path path = take_last();
    put(path);
    return path.queries;
  }

 private:
  struct Path {
    int64_t key;
    uint64_t queries;
    bool operator<(const Path& other) const noexcept { return key < other.key; }
  };

  // Removes all paths at the last key, joined.
  Path take_last() noexcept {
    Path path{paths_[0].key, 0};
    while (count_ > 0 && paths_[0].key == path.key) {
      path.queries |= paths_[0].queries;
      std::pop_heap(paths_, paths_ + count_--);
    }
    return path;
  }
  void put(const Path& path) noexcept {
    paths_[count_++] = path;
    std::push_heap(paths_, paths_ + count_);
  }

  int count_ = 0;
  Path paths_[64];  // a heap: the one at the last key comes first
};

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
  if (first == keys.count || queries.count == 0) return;
  AncestorPaths paths;
  for (int64_t i = 0; i < queries.count; ++i)
    paths.begin(start + i * queries.step, static_cast<int>(i));
  const auto parent_of = [&](int64_t key) noexcept {
    const int64_t above = parent[(key - context) * stride];
    return above < 0 ? context - 1 : context + above;
  };
  for (int64_t j = keys.count; j-- > first;) bits[j] &= paths.through(keys[j], parent_of);
}

}  // namespace rapt
