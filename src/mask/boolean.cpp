// A mask given element by element. Bound: data = the head's [q_len, k_len] part, values[0] and
// values[1] = its strides in queries and keys (0: broadcast).
#include "rapt/mask/boolean.h"

#include <string>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Boolean, &Boolean::allowed>("allowed", "bool [..., q_len, k_len]: true = may attend",
                                          kAnyNumber, {}, true),
};

// Bit j says whether byte j of the first n <= 64 is not 0.
uint64_t bits_of_bytes(const unsigned char* bytes, int64_t n) {
  uint64_t bits = 0;
  int64_t j = 0;
#if defined(__SSE2__)  // every x86-64
  for (; j + 16 <= n; j += 16) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + j));
    const auto zero =
        static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(some, _mm_setzero_si128())));
    bits |= static_cast<uint64_t>(zero ^ 0xFFFF) << j;
  }
#endif
  for (; j < n; ++j) bits |= static_cast<uint64_t>(bytes[j] != 0) << j;
  return bits;
}

// Transposes 64 x 64 bits: bit j of word i goes to bit i of word j. Swaps halves, then quarters,
// and so on.
void transpose_bits(uint64_t (&words)[64]) {
  uint64_t low = 0x00000000FFFFFFFF;
  for (int size = 32; size > 0; size /= 2, low ^= low << size)
    for (int block = 0; block < 64; block += 2 * size)
      for (int i = block; i < block + size; ++i) {
        const uint64_t swapped = ((words[i] >> size) ^ words[i + size]) & low;
        words[i] ^= swapped << size;
        words[i + size] ^= swapped;
      }
}

}  // namespace

const Declaration Boolean::kDeclaration = {
    "boolean", "which query may attend to which key, element by element",
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
  if (allowed.count() == 0) return;  // there are no pairs, and `data` may be null
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
  // The caller reads the bits next in any case. The forward pass then trims keys that no query of
  // the tile attends to.
  return Cover::some;
}

void Boolean::exclude(const BoundMask& bound, Positions queries, Positions keys,
                      uint64_t* bits) const noexcept {
  const auto* bytes = static_cast<const unsigned char*>(bound.data) +
                      queries.start * bound.values[0] + keys.start * bound.values[1];
  const int64_t query_step = queries.step * bound.values[0], key_step = keys.step * bound.values[1];
  if (key_step != 1) {
    for (int64_t j = 0; j < keys.count; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        if (!bytes[i * query_step + j * key_step]) bits[j] &= ~(uint64_t{1} << i);
    return;
  }
  for (int64_t j = 0; j < keys.count; j += 64) {
    const int64_t some = keys.count - j < 64 ? keys.count - j : 64;
    uint64_t words[64] = {};
    for (int64_t i = 0; i < queries.count; ++i) {
      // The next call reads the same rows at the following keys. Rows are far apart.
      __builtin_prefetch(bytes + i * query_step + j + keys.count);
      words[i] = bits_of_bytes(bytes + i * query_step + j, some);
    }
    transpose_bits(words);
    for (int64_t k = 0; k < some; ++k) bits[j + k] &= words[k];
  }
}

}  // namespace rapt
