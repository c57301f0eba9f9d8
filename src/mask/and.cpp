// Masks combined by "and": the keys that all parts allow.
#include "rapt/mask/and.h"

#include <algorithm>

namespace rapt {

const Declaration And::kDeclaration = {"and",
                                       "a query attends to the keys that all of the parts allow",
                                       "the masks of one call are combined this way",
                                       {}};

void And::check(Shape leading, int64_t q_len, int64_t k_len) const {
  parts_.check(*this, leading, q_len, k_len);
}

void And::bind(const Head& head, BoundMask* bound) const noexcept { parts_.bind(head, bound); }

KeyRange And::key_range(const BoundMask& bound, Positions queries) const noexcept {
  KeyRange range{0, bound.k_len};
  for (size_t i = 0; i < parts_.size(); ++i) {
    const KeyRange r = parts_[i].key_range(parts_.slot(bound, i), queries);
    range = {std::max(range.begin, r.begin), std::min(range.end, r.end)};
  }
  return {range.begin, std::max(range.begin, range.end)};
}

KeyRange And::next_run(const BoundMask& bound, Positions queries, int64_t from) const noexcept {
  return common_run(parts_.size(), from, bound.k_len, [&](size_t i, int64_t at) {
    return parts_[i].next_run(parts_.slot(bound, i), queries, at);
  });
}

Cover And::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  Cover least = Cover::all;
  for (size_t i = 0; i < parts_.size() && least != Cover::none; ++i)
    least = std::min(least, parts_[i].cover(parts_.slot(bound, i), queries, keys));
  return least;
}

void And::exclude(const BoundMask& bound, Positions queries, Positions keys,
                  uint64_t* bits) const noexcept {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const BoundMask& slot = parts_.slot(bound, i);
    switch (parts_[i].cover(slot, queries, keys)) {
      case Cover::all:
        break;
      case Cover::some:
        parts_[i].exclude(slot, queries, keys, bits);
        break;
      case Cover::none:
        std::fill_n(bits, keys.count, 0);
        return;
    }
  }
}

}  // namespace rapt
