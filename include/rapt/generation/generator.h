#pragma once
// Continues a text, given as tokens, by a language model, one of rapt::nn or one that rapt::model
// has read (rapt/model/decoder_model.h): the prompt is read in calls of at most kMostTokensAtOnce
// tokens, then each token that is drawn is read beside the keys and values of earlier ones. The
// logits have the bits of one call; where tile registers multiply, with `invariant`.
//
//   Generator generator(model, {.length = 100, .stop_tokens = {50256}}, prompt);
//   while (generator.next())
//     if (generator.token(0) != kNoToken) write(generator.token(0));
//
// Several sequences continue the same prompt. They are computed together, and sequence i has the
// same tokens whatever their number is.
//
// A model has `context` positions. When they are full, a sequence ends, or slides: the cache
// forgets all tokens, and the newest context / 2 are read again as a prompt. Their positions count
// from 0 anew, so sliding suits learned and rotary positions alike, and each token has the logits
// of a pass over the tokens that the model still knows. decoding.h says why no circular cache
// forgets one token at a time.
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rapt/generation/sampler.h"
#include "rapt/nn/decoding.h"

namespace rapt::generation {

inline constexpr int64_t kNoToken = -1;  // in place of a token

// Limits, by which sizes fit 64 bits.
inline constexpr int64_t kMostSequences = 1 << 16;
inline constexpr int64_t kMostLength = int64_t{1} << 31;

// The most tokens of a sequence that a call reads, which bounds its temporaries. So many rows reach
// the speed of products, and read the weights once for all of them.
inline constexpr int64_t kMostTokensAtOnce = 512;

// What happens to a sequence when the context is full.
enum class WhenFull : uint8_t {
  stop,   // it ends
  slide,  // the newest half of its tokens are read anew, and it goes on
};

// Why a sequence has ended.
enum class Finish : uint8_t {
  none,        // it goes on
  stop_token,  // one was drawn, which is not part of the text
  length,      // it has the tokens that were asked for
  context,     // the model has no further position
  stop_word,   // the caller has ended it by end()
};
inline constexpr const char* kFinishNames[] = {"none", "stop-token", "length", "context",
                                               "stop-word"};

// One head of one layer, both from 0.
struct LayerHead {
  int64_t layer = 0;  // of the model
  int64_t head = 0;   // of the layer
};

// What is generated.
struct GeneratorOptions {
  SamplingOptions sampling = {};            // how tokens are drawn
  int64_t sequences = 1;                    // texts behind the one prompt
  int64_t length = 100;                     // tokens of a sequence behind the prompt, at most
  int64_t vocabulary = 0;                   // draws tokens below it; 0: all of the model
  std::vector<int64_t> stop_tokens = {};    // end a sequence
  WhenFull when_full = WhenFull::stop;      // what happens when the context is full
  bool invariant = false;                   // DecodingCache::invariant of its caches
  std::optional<LayerHead> attention = {};  // whose weights attention() returns
  // The type of keys and values in the cache. Absent: that in which the model computes. A
  // DecoderModel rounds them to bf16 or f16, which halves the cache.
  std::optional<DType> cache_dtype = {};
};

// The bytes that a Generator takes beside the model: keys and values, logits, and what the layers
// keep of the tokens of one call. It leaves out the workspaces of single calls, which grow with the
// threads. `spec` as nn::complete_spec() returns it, `dtype` of the model, `prompt` in tokens. A
// double, because the sizes of a config need not fit 64 bits.
double generation_bytes(const nn::LanguageModelSpec& spec, DType dtype,
                        const GeneratorOptions& options, int64_t prompt);
// The same of any model.
double generation_bytes(const nn::DecodingSizes& sizes, const GeneratorOptions& options,
                        int64_t prompt);

// A model, its cache, and sequences in progress.
class Generator {
 public:
  // The model, and what the context refers to, must outlive the generator. Takes all memory.
  // Throws Error(argument) for options out of their ranges, an empty prompt, or one that is longer
  // than the context or has tokens beyond the vocabulary; Error(dtype) for a cache_dtype that the
  // model does not have; std::bad_alloc.
  Generator(const nn::DecodingModel& model, const GeneratorOptions& options,
            std::span<const int64_t> prompt, const Context& context = {});
  Generator(const nn::LanguageModel& model, const GeneratorOptions& options,
            std::span<const int64_t> prompt, const Context& context = {});
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Draws a token for each sequence that goes on; the first call reads the prompt. False: all have
  // ended, and nothing is drawn. Throws Error(cancelled), and Error(argument) for logits of which
  // none can be drawn; the generator is then of no further use.
  bool next();

  // The token that the last next() added to a sequence; kNoToken if it added none.
  int64_t token(int64_t sequence) const { return newest_[static_cast<size_t>(sequence)]; }
  // Why a sequence has ended, or that it goes on.
  Finish finish(int64_t sequence) const { return finish_[static_cast<size_t>(sequence)]; }
  // Ends a sequence behind its last token, as when its text has a word that ends it.
  void end(int64_t sequence) { finish_[static_cast<size_t>(sequence)] = Finish::stop_word; }
  // The tokens of a sequence without the prompt and without a stop token.
  std::span<const int64_t> text(int64_t sequence) const;

  // With options.attention: the weights [keys] that the last next() looked with, f32, or f64 for
  // f64: those of the token before the one that it drew. Key j is token forgotten() + j of prompt
  // and text.
  TensorView attention(int64_t sequence) const;
  // The tokens that sliding has dropped.
  int64_t forgotten() const { return forgotten_; }

 private:
  // A model that the generator keeps, or that of the caller.
  Generator(std::unique_ptr<const nn::DecodingModel> own, const nn::DecodingModel* model,
            const GeneratorOptions& options, std::span<const int64_t> prompt,
            const Context& context);
  void check(std::span<const int64_t> prompt) const;
  void take_memory();
  nn::DecodingCache make_cache(int64_t sequences, int64_t capacity, nn::Arena& arena) const;
  void take_states(int64_t capacity, nn::Arena& arena);
  // Counts the scratch of calls that read `n` tokens.
  void count_calls(nn::DecodingCache& cache, int64_t n, nn::Arena& scratch);
  // Appends the tokens from `begin` on to a cache of some sequences, and writes the logits and
  // weights of the last ones.
  void read_tokens(nn::DecodingCache& cache, int64_t begin, int64_t end);
  // The same for the tokens of input_ [sequences, n].
  void decode_input(nn::DecodingCache& cache, int64_t n, nn::Arena& scratch);
  void read_prompt();
  void read_new_tokens();
  void draw(int64_t sequence, int64_t position);
  Finish finish_after(int64_t written) const;

  // Tokens in the cache, the same for all sequences.
  int64_t cached() const { return cache_.length(0); }
  // Tokens of each sequence, with the prompt. Ended sequences go on with what nobody looks at.
  int64_t total() const { return std::ssize(tokens_[0]); }

  const std::unique_ptr<const nn::DecodingModel> own_;
  const nn::DecodingModel& model_;
  const nn::DecodingSizes sizes_;
  const GeneratorOptions options_;
  const Context context_;
  Sampler sampler_;
  const int64_t prompt_;                      // tokens
  std::vector<std::vector<int64_t>> tokens_;  // of each sequence, with the prompt
  std::vector<int64_t> written_;              // how many of them are the text
  std::vector<int64_t> newest_;
  std::vector<Finish> finish_;
  int64_t forgotten_ = 0;
  Tensor state_memory_, scratch_memory_, prompt_memory_;  // u8
  nn::DecodingCache cache_;
  nn::DecodingCache prompt_cache_;  // of several sequences: the prompt, until all have it
  TensorView logits_;               // [sequences, vocabulary of the model]
  nn::DecodingWeights weights_;     // [sequences, capacity]
  std::vector<int64_t> input_;      // [sequences, new tokens]
};

}  // namespace rapt::generation
