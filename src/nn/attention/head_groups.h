#pragma once
// The backward call of multi-head attention with a few heads at a time. d_query, d_key and d_value
// of a group of heads go into the gradients of weights and inputs at once, so that long sequences
// need no arrays as large as the projections.
#include "rapt/nn/multi_head_attention.h"

namespace rapt::nn {

// backward(), its tensors checked, with groups of `key_heads` key heads and the query heads that
// read them; num_kv_heads and more: all heads at once. d_x sums over one group after the other. All
// heads are computed at once, too, beside qk_norm, a method, gradients of a bias or of relative
// positions, and in 16 bits.
void backward_by_groups(MultiHeadAttention& layer, const TensorView& x, const TensorView& d_y,
                        const MultiHeadAttention::State& state, const TensorView& d_x,
                        const Run& run, bool add, const MultiHeadCall& call,
                        const MultiHeadGradients& gradients, int64_t key_heads);

}  // namespace rapt::nn
