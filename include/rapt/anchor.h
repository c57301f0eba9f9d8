#pragma once
// The key with which query 0 is aligned if the lengths differ.
#include "rapt/positions.h"

namespace rapt {

enum class Anchor : uint8_t {
  top_left,      // key 0: PyTorch's is_causal, JAX, Keras, ONNX without a cache
  bottom_right,  // key k_len - q_len, whatever Lengths says: flash-attention >= 2.1, MLX, caches
};
inline constexpr const char* kAnchorNames[] = {"top-left", "bottom-right"};

// The number of keys before the key with which query 0 is aligned.
[[gnu::always_inline]] inline int64_t offset_of(Anchor anchor, const Head& head) noexcept {
  return anchor == Anchor::bottom_right ? head.k_len - head.q_len : 0;
}

}  // namespace rapt
