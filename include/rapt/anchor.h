#pragma once
// Where position 0 of the queries stands among the keys when the lengths differ.
#include "rapt/positions.h"

namespace rapt {

enum class Anchor : uint8_t {
  top_left,      // at key 0: PyTorch's is_causal, JAX, Keras, ONNX without a cache
  bottom_right,  // at key k_len - q_len, whatever Lengths says: flash-attention >= 2.1, MLX, caches
};
inline constexpr const char* kAnchorNames[] = {"top-left", "bottom-right"};

// Keys before the one where query 0 stands.
[[gnu::always_inline]] inline int64_t offset_of(Anchor anchor, const Head& head) noexcept {
  return anchor == Anchor::bottom_right ? head.k_len - head.q_len : 0;
}

}  // namespace rapt
