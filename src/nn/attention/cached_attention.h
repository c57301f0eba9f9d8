#pragma once
// Self-attention of new rows to a cache of keys and values, for decoding: the rows' keys are
// rotated once, as they are appended.
#include "rapt/nn/multi_head_attention.h"

namespace rapt::nn {

// A linear cache of one layer, and where the new rows of each sequence stand.
struct CachedRows {
  TensorView keys, values;    // [batch, num_kv_heads, capacity, head_dim]
  TensorView lengths_before;  // [batch] i64: keys before the call
  TensorView lengths;         // [batch] i64: keys with those of the new rows
  TensorView positions;       // [batch, n] i64: of the new rows
};

// A request for weights of one head: those of the last new row of each sequence.
struct HeadWeights {
  int64_t head = 0;
  TensorView weights = {};  // [batch, capacity], 0 behind the last key; absent: not wanted
};

// x and y [batch, n, embed_dim]; y + the result if `add`. The masks of the layer count from the
// first key of each sequence; causal ones are anchored bottom-right. Takes scratch, allocates
// nothing. Checks what attention checks.
void forward_cached(const MultiHeadAttention& layer, const TensorView& x, const TensorView& y,
                    const CachedRows& cache, const Run& run, bool add = false,
                    const HeadWeights& weights = {});

}  // namespace rapt::nn
