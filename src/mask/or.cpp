// Masks combined by "or": the keys that at least one part allows.
#include "rapt/mask/or.h"

#include <algorithm>

namespace rapt {

const Declaration Or::kDeclaration = {
    "or",
    "a query attends to the keys that at least one of the parts allows",
    "prefix-LM: Raffel et al. 2020, arXiv:1910.10683, section 3.2.1",
    {}};

void Or::check(Shape leading, int64_t q_len, int64_t k_len) const {
  parts_.check(*this, leading, q_len, k_len);
}

void Or::bind(const Head& head, BoundMask* bound) const noexcept { parts_.bind(head, bound); }

KeyRange Or::key_range(const BoundMask& bound, Positions queries) const noexcept {
  KeyRange hull{0, 0};
  for (size_t i = 0; i < parts_.size(); ++i) {
    const KeyRange r = parts_[i].key_range(parts_.slot(bound, i), queries);
    if (r.begin >= r.end) continue;  // an empty range must not widen the hull
    hull = hull.end == 0 ? r : KeyRange{std::min(hull.begin, r.begin), std::max(hull.end, r.end)};
  }
  return hull;
}

KeyRange Or::next_run(const BoundMask& bound, Positions queries, int64_t from) const noexcept {
  KeyRange nearest{bound.k_len, bound.k_len};
  for (size_t i = 0; i < parts_.size(); ++i) {
    const KeyRange r = parts_[i].next_run(parts_.slot(bound, i), queries, from);
    if (r.begin >= r.end) continue;
    if (r.begin < nearest.begin || (r.begin == nearest.begin && r.end > nearest.end)) nearest = r;
  }
  return nearest;
}

Cover Or::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  Cover most = Cover::none;
  for (size_t i = 0; i < parts_.size() && most != Cover::all; ++i)
    most = std::max(most, parts_[i].cover(parts_.slot(bound, i), queries, keys));
  return most;
}

void Or::exclude(const BoundMask& bound, Positions queries, Positions keys,
                 uint64_t* bits) const noexcept {
  // Parts only clear bits. So each part starts from all bits set, and `seen` collects their union.
  constexpr int64_t kKeys = 64;  // at a time, so that the scratch fits the stack at any depth
  const uint64_t full = low_bits(queries.count);
  for (int64_t begin = 0; begin < keys.count; begin += kKeys) {
    const Positions some = keys.part(begin, std::min(begin + kKeys, keys.count));
    uint64_t seen[kKeys] = {}, words[kKeys];
    bool all = false;
    for (size_t i = 0; i < parts_.size() && !all; ++i) {
      const BoundMask& slot = parts_.slot(bound, i);
      const Cover cover = parts_[i].cover(slot, queries, some);
      all = cover == Cover::all;
      if (cover != Cover::some) continue;
      std::fill_n(words, some.count, full);
      parts_[i].exclude(slot, queries, some, words);
      for (int64_t j = 0; j < some.count; ++j) seen[j] |= words[j];
    }
    if (all) continue;
    for (int64_t j = 0; j < some.count; ++j) bits[begin + j] &= seen[j];
  }
}

}  // namespace rapt
