// The complement of a mask: the keys that the part does not allow.
#include "rapt/mask/not.h"

#include <algorithm>

namespace rapt {
namespace {

// The number of successive keys, from one end of `count` keys, for which all(begin, count) holds.
// Runs double until one fails; then they are halved. No key is in two runs that hold, because
// cover() of the part may read every key of a run.
template <class All>
int64_t run_of_all(int64_t count, All all) {
  int64_t known = 0, most = count, step = 1;
  while (known < most) {
    const int64_t run = most == count ? std::min(step, most - known) : (most - known + 1) / 2;
    if (all(known, run)) {
      known += run;
      step = run * 2;
    } else {
      most = known + run - 1;
    }
  }
  return known;
}

}  // namespace

const Declaration Not::kDeclaration = {
    "not", "a query attends to the keys that the part does not allow", "set complement", {}};

void Not::check(Shape leading, int64_t q_len, int64_t k_len) const {
  parts_.check(*this, leading, q_len, k_len);
}

void Not::bind(const Head& head, BoundMask* bound) const noexcept { parts_.bind(head, bound); }

KeyRange Not::key_range(const BoundMask& bound, Positions queries) const noexcept {
  // Keys at both ends that the part allows for every query are masked out for every query.
  const Mask& part = parts_[0];
  const BoundMask& slot = parts_.slot(bound, 0);
  const auto all = [&](int64_t begin, int64_t count) {
    return part.cover(slot, queries, {begin, 1, count}) == Cover::all;
  };
  const int64_t k_len = bound.k_len;
  const int64_t front = run_of_all(k_len, all);
  if (front == k_len) return {0, 0};
  const int64_t back = run_of_all(k_len - front, [&](int64_t begin, int64_t count) {
    return all(k_len - begin - count, count);
  });
  return {front, k_len - back};
}

Cover Not::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  switch (parts_[0].cover(parts_.slot(bound, 0), queries, keys)) {
    case Cover::none:
      return Cover::all;
    case Cover::all:
      return Cover::none;
    case Cover::some:
      break;
  }
  return Cover::some;
}

void Not::exclude(const BoundMask& bound, Positions queries, Positions keys,
                  uint64_t* bits) const noexcept {
  const Mask& part = parts_[0];
  const BoundMask& slot = parts_.slot(bound, 0);
  constexpr int64_t kKeys = 64;  // at a time, so that the scratch fits the stack at any depth
  for (int64_t begin = 0; begin < keys.count; begin += kKeys) {
    const Positions some = keys.part(begin, std::min(begin + kKeys, keys.count));
    uint64_t seen[kKeys];  // the bits that the part allows
    const Cover cover = part.cover(slot, queries, some);
    if (cover == Cover::none) continue;
    std::fill_n(seen, some.count, ~uint64_t{0});
    if (cover == Cover::some) part.exclude(slot, queries, some, seen);
    for (int64_t j = 0; j < some.count; ++j) bits[begin + j] &= ~seen[j];
  }
}

}  // namespace rapt
