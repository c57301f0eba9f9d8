#pragma once
// A mask bound to one head, and what it says about rows, tiles and runs, for tests of single masks.
#include <string>
#include <utility>
#include <vector>

#include "rapt/mask/mask.h"

namespace laws {

using Keys = std::pair<int64_t, int64_t>;  // [begin, end)

class BoundHead {
 public:
  // The first head of a problem without leading dimensions. The mask must have one slot.
  BoundHead(const rapt::Mask& mask, int64_t q_len, int64_t k_len)
      : mask_(mask), bound_{&mask, nullptr, {}, q_len, k_len} {
    mask.check({}, q_len, k_len);
    mask.bind({nullptr, 0, q_len, k_len}, &bound_);
  }

  // The keys that a query may attend to, as text: "x.x" for keys 0 and 2.
  std::string row(int64_t query) const {
    std::string text;
    for (int64_t key = 0; key < bound_.k_len; ++key) {
      uint64_t bits = 1;
      mask_.exclude(bound_, {query, 1, 1}, {key, 1, 1}, &bits);
      text += bits & 1 ? 'x' : '.';
    }
    return text;
  }

  rapt::Cover cover(rapt::Positions queries, rapt::Positions keys) const {
    return mask_.cover(bound_, queries, keys);
  }

  Keys range(int64_t begin, int64_t count) const {
    const rapt::KeyRange r = mask_.key_range(bound_, {begin, 1, count});
    return {r.begin, r.end};
  }

  // All runs of some queries, in order.
  std::vector<Keys> runs(int64_t begin, int64_t count) const {
    std::vector<Keys> runs;
    for (int64_t from = 0;;) {
      const rapt::KeyRange r = mask_.next_run(bound_, {begin, 1, count}, from);
      if (r.begin >= r.end) return runs;
      runs.emplace_back(r.begin, r.end);
      from = r.end;
    }
  }

 private:
  const rapt::Mask& mask_;
  rapt::BoundMask bound_;
};

}  // namespace laws
