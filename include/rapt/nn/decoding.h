#pragma once
// Continues texts token by token: a LanguageModel reads new tokens beside the keys and values of
// earlier ones, which a cache keeps. Keys are rotated once, as they are appended.
//
//   DecodingCache cache = make_decoding_cache(model, batch, capacity, states);
//   decode(model, prompt, cache, logits, run);      // [batch, prompt length]
//   decode(model, next_token, cache, logits, run);  // [batch, 1], as often as needed
//
// The logits are those of one pass over all tokens, up to the rounding of sums. Scratch is counted
// (arena.h) with each number of new tokens that calls have: few tokens may need more than many.
#include <vector>

#include "rapt/nn/language_model.h"

namespace rapt::nn {

// The keys and values of sequences in progress.
struct DecodingCache {
  // Those of one block.
  struct Layer {
    TensorView keys, values;  // [batch, kv_heads, capacity, head_dim]
  };
  std::vector<Layer> layers;
  // [batch] i64: tokens of each sequence, 0 at first. Smaller numbers forget the last tokens.
  TensorView lengths;
  int64_t capacity = 0;  // tokens of a sequence, at most

  // The number of sequences.
  int64_t batch() const noexcept { return lengths.shape[0]; }
};

// Allocates a list beside what it takes from the arena, whose memory must outlive the cache. Throws
// Error(argument) for a capacity that is not positive, or above the context of a model with learned
// positions.
DecodingCache make_decoding_cache(const LanguageModel& model, int64_t batch, int64_t capacity,
                                  Arena& arena);

// A request for attention weights of one head: those of the last token of each sequence. They take
// a call of attention per sequence, over its keys.
struct DecodingWeights {
  int64_t layer = 0, head = 0;  // both from 0
  // [batch, capacity], f32, or f64 for f64; 0 behind the last key. Absent: not wanted.
  TensorView weights = {};
};

// Appends tokens [batch, n] to the sequences and writes logits: [batch, vocabulary] of the last
// token of each, or [batch, n, vocabulary]. Takes scratch, allocates nothing. Throws
// Error(argument) for tokens that do not fit into the cache; the lengths are then unchanged.
void decode(const LanguageModel& model, const TensorView& tokens, const DecodingCache& cache,
            const TensorView& logits, const Run& run, const DecodingWeights& weights = {});

}  // namespace rapt::nn
