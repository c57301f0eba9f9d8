#pragma once
// A mask bound to one head, and what it says about rows, tiles and runs, for tests of single masks.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "rapt/mask/mask.h"

namespace laws {

using Keys = std::pair<int64_t, int64_t>;  // [begin, end)

class BoundHead {
 public:
  // The head at an index of the leading dimensions. The mask must have one slot and no tensor whose
  // leading dimensions are checked.
  BoundHead(const rapt::Mask& mask, int64_t q_len, int64_t k_len,
            const std::vector<int64_t>& index = {})
      : mask_(mask), bound_{&mask, nullptr, {}, q_len, k_len} {
    mask.check({}, q_len, k_len);
    mask.bind({index.data(), static_cast<int>(index.size()), q_len, k_len}, &bound_);
  }

  bool attends(int64_t query, int64_t key) const {
    uint64_t bits = 1;
    mask_.exclude(bound_, {query, 1, 1}, {key, 1, 1}, &bits);
    return bits & 1;
  }

  // The keys that a query may attend to, as text: "x.x" for keys 0 and 2.
  std::string row(int64_t query) const {
    std::string text;
    for (int64_t key = 0; key < bound_.k_len; ++key) text += attends(query, key) ? 'x' : '.';
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
  std::vector<Keys> runs(int64_t begin, int64_t count) const { return runs({begin, 1, count}); }
  std::vector<Keys> runs(rapt::Positions queries) const {
    std::vector<Keys> runs;
    for (int64_t from = 0;;) {
      const rapt::KeyRange r = mask_.next_run(bound_, queries, from);
      if (r.begin >= r.end) return runs;
      EXPECT_GE(r.begin, from);
      EXPECT_LE(r.end, bound_.k_len);
      if (r.end <= from || r.end > bound_.k_len) return runs;
      runs.emplace_back(r.begin, r.end);
      from = r.end;
    }
  }

  // Which keys lie in these runs.
  std::vector<bool> keys_of_runs(rapt::Positions queries) const {
    std::vector<bool> keys(static_cast<size_t>(bound_.k_len));
    for (const auto& [begin, end] : runs(queries))
      std::fill(keys.begin() + begin, keys.begin() + end, true);
    return keys;
  }

  // Clears the bits of pairs that do not attend, as Mask::exclude() does.
  void exclude(rapt::Positions queries, rapt::Positions keys, uint64_t* bits) const {
    mask_.exclude(bound_, queries, keys, bits);
  }

 private:
  const rapt::Mask& mask_;
  rapt::BoundMask bound_;
};

}  // namespace laws
