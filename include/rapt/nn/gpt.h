#pragma once
// A decoder-only Transformer over tokens, as GPT-2 (Radford et al. 2019, "Language models are
// unsupervised multitask learners", section 2.3): pre-norm blocks with a causal mask, learned
// positions, and a head that is the table of tokens.
//
//   h = dropout(wte[tokens] + wpe[0 .. length)),  h = block_i(h) for each block
//   logits = ln_f(h) wte^T
//
//   tokens, targets [batch, length] i64; logits [batch, length, vocabulary]
//
// LanguageModel (language_model.h) has the layouts that transformers writes, and nothing beside
// them. This model is for what they do not have: each block takes any attention of
// MultiHeadAttentionSpec, with relative positions, scores, masks and normalisers. `rapt train
// --example copy` needs that: it learns a row per distance.
#include <vector>

#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/embedding.h"
#include "rapt/nn/encoder_layer.h"

namespace rapt::nn {

// Sizes, and what differs from the default.
struct GptSpec {
  int64_t vocabulary = 0, context = 0;  // tokens, and positions
  int64_t layers = 4, heads = 4, features = 128;
  double dropout = 0;
  Activation activation = Activation::gelu_tanh;
  // Each block's attention. A causal mask is added. With `rotary` or `relative` in it, or
  // `positions` off, there is no table of positions.
  MultiHeadAttentionSpec attention = {};
  bool positions = true;
};

struct Gpt {
  Embedding wte;  // [vocabulary, features], also the head
  Embedding wpe;  // [context, features], or without a weight
  std::vector<EncoderLayer> h;
  LayerNorm ln_f;
  Dropout dropout;
  int64_t context = 0;

  int64_t features() const { return wte.features(); }

  template <class Self, class F>
  static void members(Self& model, const F& f) {
    f("wte", model.wte);
    f("wpe", model.wpe);
    f("h", model.h);
    f("ln_f", model.ln_f);
  }

  // What a backward call needs of its forward call.
  struct State {
    std::vector<EncoderLayer::State> blocks;  // of each block
    std::vector<TensorView> x;  // [blocks + 1] x [batch, length, features]: before each, after all
    TensorView normed;          // [batch, length, features]
    LayerNorm::State ln_f;      // of ln_f
    TensorView positions;       // [length] i64
  };
};

// Throws Error(argument) for sizes that are not positive or do not fit together.
Gpt make_gpt(const GptSpec& spec, DType dtype = DType::f32);

// Sets the weights as GPT-2 does: normal(0.02), of the projections back into h divided by
// sqrt(2 layers); biases 0. By counters: the same numbers on every machine (init.h).
void initialize_gpt(Gpt& model, uint64_t seed);

// Allocates two lists beside what it takes from the arena.
Gpt::State make_state(const Gpt& model, int64_t batch, int64_t length, Arena& arena);

// `call`: masks, captures, ... of the attention of every block.
void forward(const Gpt& model, const TensorView& tokens, const TensorView& logits,
             const Gpt::State& state, const Run& run, const MultiHeadCall& call = {});
// Adds to the gradients of the parameters; tokens have none.
void backward(Gpt& model, const TensorView& tokens, const TensorView& d_logits,
              const Gpt::State& state, const Run& run, const MultiHeadCall& call = {});

}  // namespace rapt::nn
