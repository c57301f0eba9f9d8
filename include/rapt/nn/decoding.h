#pragma once
// Continues texts token by token: a LanguageModel reads new tokens beside the keys and values of
// earlier ones, which caches keep (rapt/key_value_cache.h). Keys are rotated once, as they are
// appended.
//
//   DecodingCache cache = make_decoding_cache(model, batch, capacity, states);
//   decode(model, prompt, cache, logits, run);      // [batch, prompt length]
//   decode(model, next_token, cache, logits, run);  // [batch, 1], as often as needed
//
// The logits have the bits of one pass over all tokens, however these are cut into calls. Where
// tile registers multiply, that takes an invariant cache, because calls with few pairs of a query
// and a key otherwise go by FMA (docs/numerics.md). Scratch is counted (arena.h) with each number
// of new tokens that calls have: few tokens may need more than many.
//
// The caches are linear. A circular one would forget single tokens: those of a model with learned
// positions would keep positions that no longer are theirs, and later blocks of any model would
// still hold values computed from the forgotten tokens. A caller that runs out of capacity clears
// the cache and reads the newest tokens anew (rapt/generation/generator.h).
#include <optional>
#include <vector>

#include "rapt/key_value_cache.h"
#include "rapt/nn/language_model.h"

namespace rapt::nn {

// The keys and values of sequences in progress. All blocks have the same lengths.
struct DecodingCache {
  std::vector<KeyValueCache> layers;  // linear, one for each block; none if the arena only counts
  int64_t batch = 0;                  // sequences
  int64_t capacity = 0;               // tokens of a sequence, at most
  DType dtype = DType::f32;           // of keys and values
  // Are calls of all sizes computed by one kernel class (AttentionOptions::invariant)?
  bool invariant = false;

  // The tokens of a sequence. Throws Error(argument) for a sequence that the cache does not have,
  // as truncate(). Not for a cache without layers.
  int64_t length(int64_t sequence) const { return layers.front().length(sequence); }
  // Keeps the oldest `length` tokens of a sequence. Throws Error(argument) for a length that is
  // negative or above length(sequence).
  void truncate(int64_t sequence, int64_t length);
  // Forgets all tokens.
  void clear() noexcept;
};

// The sizes of a cache of a model, and the limits of a call.
struct DecodingSizes {
  int64_t layers = 0;                     // of the model, each with a cache
  int64_t heads = 0, kv_heads = 0;        // of a layer: of queries, and of keys and values
  int64_t head_dim = 0;                   // of queries, keys and values
  int64_t vocabulary = 0;                 // tokens and logits
  int64_t context = 0;                    // positions
  bool limits_capacity = false;           // no capacity may exceed the context
  DType dtype = DType::f32;               // computed in, and of logits
  std::optional<DType> cache_dtype = {};  // of keys and values; absent: dtype
  bool rounds_cache = false;              // keys and values of f32 may be kept in bf16 or f16
  // Elements of dtype that a call keeps of one new token: a double, because the sizes of a config
  // need not fit 64 bits.
  double row_elements = 0;
};

// The sizes of a language model. `spec`: as complete_spec() returns it.
DecodingSizes decoding_sizes(const LanguageModelSpec& spec, DType dtype);

// Allocates the lists of the caches beside what it takes from the arena, whose memory must outlive
// the cache. Throws Error(argument) for a batch or capacity that is not positive, and for a
// capacity above the context of a model that limits it: one with learned positions, or a
// DecoderModel (rapt/model/decoder_model.h). Throws Error(dtype) for a cache_dtype beside dtype of
// a model that does not round.
DecodingCache make_decoding_cache(const DecodingSizes& sizes, int64_t batch, int64_t capacity,
                                  Arena& arena);
DecodingCache make_decoding_cache(const LanguageModel& model, int64_t batch, int64_t capacity,
                                  Arena& arena);

// Copies the tokens of `prompt`, a full cache of one sequence of the same model, to each sequence
// of `cache`. Throws Error(argument) for a prompt that is not full, has more sequences or other
// layers, and for sequences without room for it; Error(shape, dtype) for heads of another size.
void append_prompt(DecodingCache& cache, const DecodingCache& prompt);

// A request for attention weights of one head: those of the last token of each sequence. They take
// a call of attention per sequence, over its keys.
struct DecodingWeights {
  int64_t layer = 0, head = 0;  // both from 0
  // [batch, capacity], f32, or f64 for f64; 0 behind the last key. Absent: not wanted.
  TensorView weights = {};
};

// Appends tokens [batch, n] to the sequences and writes logits: [batch, vocabulary] of the last
// token of each, or [batch, n, vocabulary]. Takes scratch, allocates nothing. Throws
// Error(argument) for tokens that do not fit into the cache. After an error, and after
// Error(cancelled), the cache holds what it held before.
void decode(const LanguageModel& model, const TensorView& tokens, DecodingCache& cache,
            const TensorView& logits, const Run& run, const DecodingWeights& weights = {});

// A model of any kind that continues texts by such caches.
class DecodingModel {
 public:
  virtual ~DecodingModel() = default;

  // What make_decoding_cache() needs of this model.
  virtual DecodingSizes sizes() const = 0;
  // Appends tokens to the cache and writes logits, with the shapes, errors and guarantees of the
  // function decode() above.
  virtual void decode(const TensorView& new_tokens, DecodingCache& cache, const TensorView& logits,
                      const Run& run, const DecodingWeights& weights) const = 0;
};

}  // namespace rapt::nn
