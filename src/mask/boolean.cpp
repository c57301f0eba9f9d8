// A mask given element by element. Bound: data = the head's [q_len, k_len] part, values[0] and
// values[1] = its strides in queries and keys (0: broadcast).
#include "rapt/mask/boolean.h"

#include <bit>
#include <cstring>
#include <string>

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Boolean, &Boolean::allowed>("allowed", "bool [..., q_len, k_len]: true = may attend",
                                          kAnyNumber, {}, true),
};

// Eight bytes, each 0 or not, as 0 or 1.
uint64_t ones_of(uint64_t bytes) {
  constexpr uint64_t kLow7 = 0x7F7F7F7F7F7F7F7F;
  return ((((bytes & kLow7) + kLow7) | bytes) & ~kLow7) >> 7;
}

}  // namespace

const Declaration Boolean::kDeclaration = {
    "boolean", "who sees whom, element by element",
    "PyTorch scaled_dot_product_attention attn_mask: true = may attend", kParameters};

void Boolean::check(Shape leading, int64_t q_len, int64_t k_len) const {
  if (!allowed.defined()) throw Error(ErrorCode::argument, "boolean mask: no tensor was given");
  if (allowed.dtype != DType::boolean)
    throw Error(ErrorCode::dtype, std::string("boolean mask: expected bool, got ") +
                                      name_of(allowed.dtype) +
                                      "; what is added to the scores goes to options.bias");
  const int leading_rank = static_cast<int>(leading.size());
  bool fits = allowed.rank <= leading_rank + 2;
  for (int i = 0; fits && i < allowed.rank; ++i) {
    const int at = leading_rank + 2 - allowed.rank + i;  // dimension of [leading, q_len, k_len]
    const int64_t n = at < leading_rank    ? leading[static_cast<size_t>(at)]
                      : at == leading_rank ? q_len
                                           : k_len;
    fits = allowed.shape[i] == 1 || allowed.shape[i] == n;
  }
  if (!fits)
    throw Error(ErrorCode::shape, "boolean mask: shape " + to_string(allowed.dims()) +
                                      " does not broadcast to " + to_string(leading) + " + [" +
                                      std::to_string(q_len) + ", " + std::to_string(k_len) + "]");
  if (allowed.count() > 0 && !allowed.data)
    throw Error(ErrorCode::argument, "boolean mask: null pointer");
}

void Boolean::bind(const Head& head, BoundMask* bound) const noexcept {
  if (allowed.count() == 0) return;  // no pair to be asked about, and perhaps no memory
  const int leading = allowed.rank - 2;
  const int skip = head.rank - leading;
  int64_t at = 0;
  for (int i = 0; i < leading; ++i)
    if (allowed.shape[i] != 1) at += head.index[skip + i] * allowed.strides[i];
  bound->data = static_cast<const bool*>(allowed.data) + at;
  const auto stride = [&](int from_end) {
    const int i = allowed.rank - from_end;
    return i < 0 || allowed.shape[i] == 1 ? 0 : allowed.strides[i];
  };
  bound->values[0] = stride(2);
  bound->values[1] = stride(1);
}

KeyRange Boolean::key_range(const BoundMask& bound, Positions) const noexcept {
  return {0, bound.k_len};
}

Cover Boolean::cover(const BoundMask&, Positions, Positions) const noexcept {
  return Cover::some;  // the caller reads the bits anyway, and sees a tile without any
}

void Boolean::exclude(const BoundMask& bound, Positions queries, Positions keys,
                      uint64_t* bits) const noexcept {
  const auto* bytes = static_cast<const unsigned char*>(bound.data) +
                      queries.start * bound.values[0] + keys.start * bound.values[1];
  const int64_t query_step = queries.step * bound.values[0], key_step = keys.step * bound.values[1];
  int64_t j = 0;
  if (key_step == 1 && std::endian::native == std::endian::little) {
    // Eight keys of eight queries at a time: eight words of one byte per key, the query's bit in
    // each, make one word whose bytes are the keys' masks.
    for (; j + 8 <= keys.count; j += 8)
      for (int64_t i = 0; i < queries.count; i += 8) {
        uint64_t block = 0;
        const int64_t some = queries.count - i < 8 ? queries.count - i : 8;
        for (int64_t x = 0; x < some; ++x) {
          uint64_t word;
          std::memcpy(&word, bytes + (i + x) * query_step + j, 8);
          block |= ones_of(word) << x;
        }
        for (int64_t y = 0; y < 8; ++y)
          bits[j + y] &= ~(((~block >> (8 * y)) & low_bits(some)) << i);
      }
  }
  for (; j < keys.count; ++j)
    for (int64_t i = 0; i < queries.count; ++i)
      if (!bytes[i * query_step + j * key_step]) bits[j] &= ~(uint64_t{1} << i);
}

}  // namespace rapt
