#pragma once
// Writes new rows into a cache of keys or values with room for `capacity` positions, in place,
// before a decoding step. KeyValueCache (key_value_cache.h) also keeps lengths and pages.
//
//   linear    cache[b, ..., starts[b] + i, :] = update[b, ..., i, :]
//   circular  cache[b, ..., (starts[b] + i) mod capacity, :] = update[b, ..., i, :]
//
// ONNX calls it TensorScatter (opset 24), flash-attention does it inside of
// flash_attn_with_kvcache (cache_seqlens).
//
// After a linear write, attention needs the mask Lengths(starts + n). After a circular write it
// needs Lengths(min(starts + n, capacity)): the slots then hold the last `capacity` positions in
// any order. That order does not matter unless a mask, score or relative position counts positions.
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt {

// What happens at the end of the cache.
enum class CacheEnd : uint8_t {
  linear,    // a row beyond the end is rejected
  circular,  // rows continue at the beginning and overwrite the oldest ones
};

// Shapes:
//   cache   [B, ..., capacity, dim]  any dtype; any strides without overlapping elements
//   update  [B, ..., n, dim]         n <= capacity; the cache's dtype, any strides
//   starts  [B], or any prefix of the leading dimensions, each equal or 1; i64, at least 0. Absent:
//           0 for all
//
// Everything is checked before the first byte is written. Throws Error(shape, dtype),
// Error(argument) for a missing or read-only tensor and a start out of range, Error(overlap).
void write_to_cache(const TensorView& cache, const TensorView& update,
                    const TensorView& starts = {}, CacheEnd end = CacheEnd::linear);

}  // namespace rapt
