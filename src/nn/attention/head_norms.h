#pragma once
// The norms of each head's query and key (MultiHeadAttentionSpec::qk_norm). Projections lie side by
// side, norms read dense rows: so rows are copied, and normalised in place. The backward call
// copies them once more, because a norm's gradient needs its input.
#include "rapt/nn/multi_head_attention.h"

namespace rapt::nn {

// Takes the memory of normalised rows and of the norms' states.
void take_head_norms(const MultiHeadAttention& layer, Arena& arena,
                     MultiHeadAttention::State& state);

// Throws Error(argument, shape, dtype) unless a state has this memory.
void check_head_norms(const MultiHeadAttention& layer, const MultiHeadAttention::State& state);

// Writes the normalised rows from the projections of the state.
void normalize_heads(const MultiHeadAttention& layer, const MultiHeadAttention::State& state,
                     const Run& run);

// One of the two norms in a backward call: the gradient of normalised rows, of the layer's dtype.
struct HeadNormGradient {
  RmsNorm& norm;
  const RmsNorm::State& state;
  TensorView rows;      // [..., length, heads head_dim]: before the norm, in the projections
  TensorView d_normed;  // [..., length, heads, head_dim], dense; overwritten
  TensorView d_rows;    // like rows: receives the gradient
};

// Adds to the gradient of the norm's weight, and writes d_rows.
void head_norm_gradient(const HeadNormGradient& gradient, const Run& run);

}  // namespace rapt::nn
