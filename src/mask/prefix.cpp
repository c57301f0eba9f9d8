// The prefix; the rule is in the header. Bound: values[0] = its length, at most k_len.
#include "rapt/mask/prefix.h"

#include <algorithm>
#include <string>

#include "mask/per_batch.h"

namespace rapt {
namespace {

constexpr Range kCount{0, 9007199254740992.0};  // 2^53: exact as a double

constexpr Parameter kParameters[] = {
    parameter<Prefix, &Prefix::length>("length", "keys that every query may attend to", kCount),
    parameter<Prefix, &Prefix::lengths>("lengths", "instead, int64 [B]: the length of each batch"),
};

constexpr const char* kExamples[] = {"8", "1", "64"};

}  // namespace

const Declaration Prefix::kDeclaration = {
    "prefix", "every query attends to the first `length` keys",
    "Raffel et al. 2020, arXiv:1910.10683, section 3.2.1", kParameters, kExamples};

void Prefix::check(Shape leading, int64_t, int64_t) const {
  check_parameters(kDeclaration, this);
  if (!lengths.defined()) return;
  if (length != 0)
    throw Error(ErrorCode::argument, "mask prefix: a length of " + std::to_string(length) +
                                         " and a tensor of lengths; expected one of them");
  check_per_batch("mask prefix: lengths", lengths, leading);
  for_each_of(lengths, [](int64_t n) {
    if (n < 0)
      throw Error(ErrorCode::argument,
                  "mask prefix: a length of " + std::to_string(n) + " keys; expected 0 or more");
  });
}

void Prefix::bind(const Head& head, BoundMask* bound) const noexcept {
  const int64_t wanted = lengths.defined()
                             ? static_cast<const int64_t*>(lengths.data)[offset_of(lengths, head)]
                             : length;
  bound->values[0] = std::min(wanted, head.k_len);
}

KeyRange Prefix::key_range(const BoundMask& bound, Positions) const noexcept {
  return {0, bound.values[0]};
}

Cover Prefix::cover(const BoundMask& bound, Positions, Positions keys) const noexcept {
  if (keys.start >= bound.values[0]) return Cover::none;
  return keys.last() < bound.values[0] ? Cover::all : Cover::some;
}

void Prefix::exclude(const BoundMask& bound, Positions, Positions keys,
                     uint64_t* bits) const noexcept {
  for (int64_t j = 0; j < keys.count; ++j)
    if (keys[j] >= bound.values[0]) bits[j] = 0;
}

}  // namespace rapt
