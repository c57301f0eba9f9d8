// Key lengths; the rule is in the header. Bound: values[0] = the length of this batch.
#include "rapt/mask/lengths.h"

#include <string>

#include "mask/per_batch.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Lengths, &Lengths::lengths>("lengths", "int64 [B]: how many keys each batch has",
                                          kAnyNumber, {}, true),
};

}  // namespace

const Declaration Lengths::kDeclaration = {
    "lengths", "a query attends to the first `length` keys of its batch (padding)",
    "ONNX Attention nonpad_kv_seqlen", kParameters};

void Lengths::check(Shape leading, int64_t, int64_t k_len) const {
  check_per_batch("mask lengths: lengths", lengths, leading);
  for_each_of(lengths, [k_len](int64_t length) {
    if (length < 0 || length > k_len)
      throw Error(ErrorCode::argument, "mask lengths: a length of " + std::to_string(length) +
                                           " keys; expected 0 to k_len = " + std::to_string(k_len));
  });
}

void Lengths::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = static_cast<const int64_t*>(lengths.data)[offset_of(lengths, head)];
}

KeyRange Lengths::key_range(const BoundMask& bound, Positions) const noexcept {
  return {0, bound.values[0]};
}

Cover Lengths::cover(const BoundMask& bound, Positions, Positions keys) const noexcept {
  if (keys.start >= bound.values[0]) return Cover::none;
  return keys.last() < bound.values[0] ? Cover::all : Cover::some;
}

void Lengths::exclude(const BoundMask& bound, Positions, Positions keys,
                      uint64_t* bits) const noexcept {
  for (int64_t j = 0; j < keys.count; ++j)
    if (keys[j] >= bound.values[0]) bits[j] = 0;
}

}  // namespace rapt
