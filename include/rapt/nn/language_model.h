#pragma once
// Decoder-only language models in the layouts of GPT-2, Llama and Qwen3: pre-norm blocks with a
// causal mask, a norm, and a head.
//
//   h = embedding[tokens] (gpt2: + positions[0 .. length)),  h = block_i(h) for each block
//   logits = norm(h) head^T,  loss = cross-entropy(logits, targets)
//
//   gpt2    LayerNorm, learned positions, gelu_tanh, biases
//           (Radford et al. 2019, "Language models are unsupervised multitask learners",
//           section 2.3)
//   llama   RmsNorm, rotary positions, a gated network with silu, grouped heads
//           (Touvron et al. 2023, arXiv:2302.13971, section 2.2; Llama Team 2024, arXiv:2407.21783)
//   qwen3   as llama, and an RmsNorm of each head's query and key before the rotation
//           (Qwen Team 2025, arXiv:2505.09388, section 2)
//
//   tokens, targets [batch, length] i64; logits [batch, length, vocabulary]
//
// rapt/checkpoint reads and writes these models as Hugging Face transformers does, decoding.h
// continues texts with a cache of keys and values.
#include <optional>

#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/embedding.h"
#include "rapt/nn/encoder_layer.h"
#include "rapt/rotary.h"

namespace rapt::nn {

// Whose blocks a model has.
enum class LanguageModelLayout : uint8_t { gpt2, llama, qwen3 };
// Their names, as `model_type` in a config.json.
inline constexpr const char* kLanguageModelLayoutNames[] = {"gpt2", "llama", "qwen3"};

// Sizes, and what differs from the default. make_language_model() replaces zeros and absent values
// by what they stand for.
struct LanguageModelSpec {
  LanguageModelLayout layout = LanguageModelLayout::gpt2;  // norms, positions, network
  int64_t vocabulary = 0, context = 0;                     // tokens, and positions
  int64_t layers = 0, heads = 0, features = 0;
  int64_t kv_heads = 0;                       // 0: heads; gpt2 has no others
  int64_t head_dim = 0;                       // 0: features / heads; gpt2 has no others
  int64_t hidden_features = 0;                // of the network; 0: four times the features
  std::optional<Activation> activation = {};  // absent: gelu_tanh of gpt2, else silu
  double norm_epsilon = 1e-5;
  bool attention_bias = false;  // of all four projections; gpt2: always
  bool network_bias = false;    // llama; gpt2: always
  Rotary rotary = {};           // llama, qwen3; without sections and caches
  bool tied_head = true;        // the head is the table of tokens
  double embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;  // in [0, 1)
  double initializer_range = 0.02;  // standard deviation of the first values
};

struct LanguageModel {
  Embedding embedding;  // [vocabulary, features]
  Embedding positions;  // [context, features]; llama, qwen3: without a weight
  std::vector<EncoderLayer> layers;
  Norm norm;
  Parameter head;  // [vocabulary, features]; undefined where it is the table of tokens
  Dropout dropout;
  LanguageModelSpec spec;  // with all zeros and absent values replaced

  int64_t features() const noexcept { return spec.features; }
  DType dtype() const noexcept { return embedding.weight.value.dtype(); }

  template <class Self, class F>
  static void members(Self& model, const F& f) {
    f("embedding", model.embedding);
    f("positions", model.positions);
    f("layers", model.layers);
    f("norm", model.norm);
    f("head", model.head);
  }

  // What a backward call needs of its forward call.
  struct State {
    std::vector<EncoderLayer::State> layers;  // of each block
    std::vector<TensorView> x;  // [blocks + 1] x [batch, length, features]: before each, after all
    TensorView normed;          // [batch, length, features]: what the head reads
    Norm::State norm;           // of norm
    TensorView positions;       // gpt2: [batch, length] i64
    TensorView lse;             // [batch, length]: of the loss
    // [batch, length, vocabulary]: the logits, and after backward() their gradients, rounded to the
    // model's dtype. Undefined where kept_logits_bytes() is 0.
    TensorView logits;
  };
};

// The spec with zeros and absent values replaced. Throws Error(argument) for sizes that are not
// positive or do not fit together, and for what the layout does not have.
LanguageModelSpec complete_spec(const LanguageModelSpec& spec);

// The learned numbers of a model, without making it; exact up to 2^53. Throws as complete_spec().
double count_parameters(const LanguageModelSpec& spec);

// Does a model have no gradients? Frozen::yes frees the gradients of each part as soon as the part
// is made, so that less memory is taken than by freeze() afterwards.
enum class Frozen : uint8_t { no, yes };

// Throws as complete_spec().
LanguageModel make_language_model(const LanguageModelSpec& spec, DType dtype = DType::f32,
                                  Frozen frozen = Frozen::no);

// Draws matrices from normal(initializer_range), those of gpt2 that project back into h divided by
// sqrt(2 layers); biases are 0 and norms 1, as transformers does. By counters: the same numbers on
// every machine (init.h).
void initialize_language_model(LanguageModel& model, uint64_t seed);

// The bytes of logits of so many tokens that a State keeps: 0 if they are more than 64 MiB. The
// loss then has no logits (linear_cross_entropy.h), and the backward pass computes them a second
// time.
double kept_logits_bytes(const LanguageModelSpec& spec, DType dtype, double tokens);

// Allocates two lists beside what it takes from the arena. Throws Error(shape) for more than
// `context` tokens.
LanguageModel::State make_state(const LanguageModel& model, int64_t batch, int64_t length,
                                Arena& arena);

// Writes state.normed. `call`: masks, captures, ... of the attention of every block. Each block
// writes its captures over those of the block before, so that those of the last block remain; with
// add_received the sums of all blocks are added.
void forward(const LanguageModel& model, const TensorView& tokens,
             const LanguageModel::State& state, const Run& run, const MultiHeadCall& call = {});

// logits [..., vocabulary] of rows [..., features] that the norm has left.
void compute_logits(const LanguageModel& model, const TensorView& normed, const TensorView& logits,
                    const Run& run);

// The loss of the targets after forward(); 0 if the call only counts. The target of a position is
// the token after it. Writes state.logits, where they are kept.
double target_loss(const LanguageModel& model, const TensorView& targets,
                   const LanguageModel::State& state, const Run& run,
                   const CrossEntropyOptions& options = {});

// Adds the gradient of that loss to the gradients of the parameters, once after target_loss():
// kept logits are overwritten.
void backward(LanguageModel& model, const TensorView& tokens, const TensorView& targets,
              const LanguageModel::State& state, const Run& run,
              const CrossEntropyOptions& options = {}, const MultiHeadCall& call = {});

}  // namespace rapt::nn
