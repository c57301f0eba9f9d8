#include "nn/attention/appended_keys.h"

#include <algorithm>

namespace rapt::nn {
namespace {

// How many of the keys stand before the last one of the sequence.
int64_t keys_before_last(const BoundMask& bound, Positions keys) noexcept {
  if (keys.count == 0 || keys.last() < bound.k_len - 1) return keys.count;
  return keys.count - 1;
}

}  // namespace

const Declaration AppendedKey::kDeclaration = {
    "appended_key",
    "masks of the keys before the last one, which every query attends to",
    "PyTorch's nn.MultiheadAttention, add_bias_kv",
    {}};

void AppendedKey::check(Shape leading, int64_t q_len, int64_t k_len) const {
  parts_.check(*this, leading, q_len, k_len - 1);
}

void AppendedKey::bind(const Head& head, BoundMask* bound) const noexcept {
  Head known = head;
  known.k_len = head.k_len - 1;
  parts_.bind(known, bound);
}

KeyRange AppendedKey::key_range(const BoundMask& bound, Positions queries) const noexcept {
  const int64_t last = bound.k_len - 1;
  KeyRange range{0, last};
  for (size_t i = 0; i < parts_.size(); ++i) {
    const KeyRange r = parts_[i].key_range(parts_.slot(bound, i), queries);
    range = {std::max(range.begin, r.begin), std::min(range.end, r.end)};
  }
  return {range.begin < range.end ? range.begin : last, last + 1};
}

KeyRange AppendedKey::next_run(const BoundMask& bound, Positions queries,
                               int64_t from) const noexcept {
  const int64_t last = bound.k_len - 1;
  if (from > last) return {from, from};
  const KeyRange run = common_run(parts_.size(), from, last, [&](size_t i, int64_t at) {
    return parts_[i].next_run(parts_.slot(bound, i), queries, at);
  });
  return run.begin < run.end ? run : KeyRange{last, last + 1};
}

Cover AppendedKey::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  const int64_t known = keys_before_last(bound, keys);
  if (known == 0) return Cover::all;
  Cover least = Cover::all;
  for (size_t i = 0; i < parts_.size() && least != Cover::none; ++i)
    least = std::min(least, parts_[i].cover(parts_.slot(bound, i), queries, keys.part(0, known)));
  return known < keys.count && least == Cover::none ? Cover::some : least;
}

void AppendedKey::exclude(const BoundMask& bound, Positions queries, Positions keys,
                          uint64_t* bits) const noexcept {
  const Positions known = keys.part(0, keys_before_last(bound, keys));
  if (known.count == 0) return;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const BoundMask& slot = parts_.slot(bound, i);
    switch (parts_[i].cover(slot, queries, known)) {
      case Cover::all:
        break;
      case Cover::some:
        parts_[i].exclude(slot, queries, known, bits);
        break;
      case Cover::none:
        std::fill_n(bits, known.count, 0);
        return;
    }
  }
}

}  // namespace rapt::nn
