#pragma once
// The weights that the last new row of each sequence gives to the keys in a cache. A call with a
// cache returns none (rapt/cached_keys.h), so each sequence is a call of its own, whose keys are
// the whole cache with a mask of their number. Its cost grows with that number.
#include "nn/attention/cached_attention.h"

namespace rapt::nn {

// query [batch, num_heads, n, head_dim], rotated, after its keys and values are in the cache. The
// layer's masks must be causal: the last row then attends to all keys. Takes scratch, allocates
// nothing.
void write_cached_weights(const MultiHeadAttention& layer, const TensorView& query,
                          const CachedRows& rows, const HeadWeights& request, const Run& run);

}  // namespace rapt::nn
