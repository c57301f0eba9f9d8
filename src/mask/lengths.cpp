// Key lengths; the rule is in the header. Bound: values[0] = the length of this batch.
#include "rapt/mask/lengths.h"

#include <algorithm>
#include <string>

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Lengths, &Lengths::lengths>("lengths", "int64 [B]: how many keys each batch has",
                                          kAnyNumber, {}, true),
};

void check_values(const TensorView& lengths, int dim, const int64_t* at, int64_t k_len) {
  if (dim < lengths.rank) {
    for (int64_t i = 0; i < lengths.shape[dim]; ++i)
      check_values(lengths, dim + 1, at + i * lengths.strides[dim], k_len);
  } else if (*at < 0 || *at > k_len) {
    throw Error(ErrorCode::argument, "mask lengths: a length of " + std::to_string(*at) +
                                         " keys; expected 0 to k_len = " + std::to_string(k_len));
  }
}

}  // namespace

const Declaration Lengths::kDeclaration = {
    "lengths", "a query sees the first `length` keys of its batch (padding)",
    "ONNX Attention nonpad_kv_seqlen", kParameters};

void Lengths::check(Shape leading, int64_t, int64_t k_len) const {
  if (!lengths.defined())
    throw Error(ErrorCode::argument, "mask lengths: no tensor of lengths was given");
  if (lengths.dtype != DType::i64)
    throw Error(ErrorCode::dtype,
                std::string("mask lengths: expected i64, got ") + name_of(lengths.dtype));
  bool fits = lengths.rank <= static_cast<int>(leading.size());
  for (int i = 0; fits && i < lengths.rank; ++i)
    fits = lengths.shape[i] == 1 || lengths.shape[i] == leading[static_cast<size_t>(i)];
  if (!fits)
    throw Error(ErrorCode::shape, "mask lengths: shape " + to_string(lengths.dims()) +
                                      " does not fit the first leading dimensions " +
                                      to_string(leading) + "; each must be equal or 1");
  if (lengths.count() > 0 && !lengths.data)
    throw Error(ErrorCode::argument, "mask lengths: null pointer");
  check_values(lengths, 0, static_cast<const int64_t*>(lengths.data), k_len);
}

void Lengths::bind(const Head& head, BoundMask* bound) const noexcept {
  int64_t at = 0;
  for (int i = 0; i < lengths.rank; ++i)
    if (lengths.shape[i] != 1) at += head.index[i] * lengths.strides[i];
  bound->values[0] = static_cast<const int64_t*>(lengths.data)[at];
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
