#pragma once
// Self-attention of new rows to a cache of keys and values, for decoding: the rows' keys are
// rotated once, as they are appended.
#include "rapt/key_value_cache.h"
#include "rapt/nn/multi_head_attention.h"

namespace rapt::nn {

// The linear cache of one layer, and where the new rows of each sequence stand.
struct CachedRows {
  KeyValueCache* cache;    // null if the call only counts
  CacheViews views;        // of the cache; a call that counts has keys without memory, all full
  TensorView positions;    // [batch, n] i64: of the new rows
  bool invariant = false;  // as AttentionOptions::invariant
};

// A request for weights of one head: those of the last new row of each sequence.
struct HeadWeights {
  int64_t head = 0;
  TensorView weights = {};  // [batch, capacity], 0 behind the last key; absent: not wanted
};

// x and y [batch, n, embed_dim]; y + the result if `add`. Appends the rows' keys and values to the
// cache. The masks of the layer count from the first key of each sequence; causal ones are anchored
// bottom-right. Takes scratch, allocates nothing. Checks what attention checks.
void forward_cached(const MultiHeadAttention& layer, const TensorView& x, const TensorView& y,
                    const CachedRows& rows, const Run& run, bool add = false,
                    const HeadWeights& weights = {});

}  // namespace rapt::nn
