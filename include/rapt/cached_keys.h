#pragma once
// Keys and values of several sequences in a cache, each of its own length, for a call that reads
// them where they lie: `options.cache = {.lengths = lengths, .block_table = table};`.
//
// A cache has rows of `page_keys` keys in pages. Key j of sequence s is
//
//   slot = (starts[s] + j) mod capacity,   capacity = columns of block_table * page_keys
//   key[block_table[s, slot / page_keys], ..., slot mod page_keys, :]
//
// Without a block table sequence s has page s alone: key[s, ..., slot, :], capacity = page_keys.
// So a linear cache needs lengths alone, a circular one lengths and starts, and pages lengths and a
// block table (vLLM, Kwon et al. 2023, arXiv:2309.06180; flash-attention's block_table and
// cache_seqlens). Several sequences may name the same page.
//
// Shapes of a call with options.cache:
//   query [sequences, ..., num_heads, q_len, head_dim], or with options.packed.query_starts
//         [..., num_heads, all queries, head_dim]
//   key   [pages, ..., num_kv_heads, page_keys, head_dim]; without a block table, pages = sequences
//   value [pages, ..., num_kv_heads, page_keys, value_dim]
// The k_len of the call is the capacity. Each sequence is a problem of its own, as in
// PackedSequences: positions, anchors and top_keys count from its first key, q_len and k_len are
// those of the sequence, so that causal(bottom-right) is right for sequences of different lengths.
// With options.rotary, query i is at position length - q_len + i of its sequence, times the step.
// A sequence without keys gives output 0 and lse -inf. Rows beyond a length are never read, nor are
// entries of the block table that belong to no key.
//
// Returned weights [..., rows, capacity] and received attention [..., capacity] have a column per
// key, also of a circular cache: column j is key j of the sequence, the oldest first. Beyond the
// length of a sequence weights and received attention are 0, and returned scores are -inf;
// options.add_received leaves these columns as they are.
//
// Rejected with Error(unsupported): biases, masks that read tensors and maps, because their
// positions would be those of the capacity; weights and received attention of packed queries;
// rotation of keys within the call (rotate keys as they are appended); distance tables; gradients
// and tangents.
#include "rapt/tensor.h"

namespace rapt {

struct CachedKeys {
  TensorView lengths = {};  // [sequences] i32 or i64: keys of each, 0 to the capacity
  TensorView block_table =
      {};                  // [sequences, most pages of a sequence] i32 or i64; absent: one page
  TensorView starts = {};  // [sequences] i32 or i64: the slot of key 0; absent: 0

  bool defined() const noexcept {
    return lengths.defined() || block_table.defined() || starts.defined();
  }
};

}  // namespace rapt
