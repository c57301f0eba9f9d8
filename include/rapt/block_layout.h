#pragma once
// Layouts of blocks from the forms in which others keep them: a boolean matrix, FlexAttention's
// BlockMask, BigBird's adjacency. A layout owns its lists; full() and partial() are masks over them
// (rapt/mask/blocks.h).
//
//   const rapt::BlockLayout layout = rapt::layout_of_pairs(allowed, 64, 64);
//   const rapt::Blocks full = layout.full(), partial = layout.partial();
//   const rapt::Boolean pairs(allowed);
//   const rapt::And decided{&partial, &pairs};  // the pairs of partial blocks
//   const rapt::Or mask{&full, &decided};
//
// Leading dimensions of the inputs become those of the lists, which a call aligns with the FIRST
// ones of its output: [batch, head, ...], each equal or 1. A layout for each head, the same for all
// batches, is made of [1, heads, ...]. Of [heads, ...] the lists would be those of batches, whereas
// Boolean aligns the same tensor with the last dimensions: heads.
#include "rapt/mask/blocks.h"

namespace rapt {

struct BlockLayout {
  int64_t query_block = 0, key_block = 0;  // positions per block
  Tensor starts, indices;                  // i64, as in blocks.h: blocks of which all pairs attend
  Tensor partial_starts, partial_indices;  // i64: blocks of which another mask decides the pairs

  // The masks of both lists. The layout must outlive them.
  Blocks full() const& { return {query_block, key_block, starts.view(), indices.view()}; }
  Blocks partial() const& {
    return {query_block, key_block, partial_starts.view(), partial_indices.view()};
  }
  void full() && = delete;
  void partial() && = delete;
};

// The layout of a boolean matrix: blocks in which all pairs are true are full, those in which some
// are true are partial. Blocks at the ends may be shorter. Reads every element once.
// allowed: bool [..., q_len, k_len], true = may attend.
// Throws Error(argument) for a block length below 1 and an absent tensor, Error(shape, dtype).
BlockLayout layout_of_pairs(const TensorView& allowed, int64_t query_block, int64_t key_block);

// The tensors of FlexAttention's BlockMask, by its names; i32 or i64.
struct BlockMaskTensors {
  TensorView kv_num_blocks;       // [..., rows]: the number of partial blocks of each row
  TensorView kv_indices;          // [..., rows, columns]: these blocks first, in any order
  TensorView full_kv_num_blocks;  // the same of full blocks; both absent: all blocks are partial
  TensorView full_kv_indices;
  int64_t query_block = 128, key_block = 128;  // BLOCK_SIZE
};

// The layout of a BlockMask; its mask_mod decides the pairs of partial blocks.
// Throws Error(argument) for absent tensors, for numbers and indices out of range and for a block
// that a row lists twice, Error(shape, dtype).
BlockLayout layout_of_block_mask(const BlockMaskTensors& tensors);

// The layout of BigBird as its authors' code and transformers compute it: rows and columns of the
// first and last block are full; all other rows attend to the first and last block, to their own
// and its two neighbours, and to their random blocks. A block that is listed twice counts once;
// that code counts it twice in the softmax. There are no partial blocks. random_blocks: i32 or i64
// [..., blocks - 2, random], key blocks of rows 1 to blocks - 2; the rand_attn of transformers,
// [heads, blocks - 2, random], as [1, heads, blocks - 2, random]. Throws Error(argument) for a
// block length below 1, an absent tensor and blocks out of range, Error(shape, dtype).
BlockLayout layout_of_bigbird(const TensorView& random_blocks, int64_t block);

}  // namespace rapt
