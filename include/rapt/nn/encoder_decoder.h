#pragma once
// A Transformer that reads source tokens and predicts target tokens (Vaswani et al. 2017,
// arXiv:1706.03762): PyTorch's nn.Transformer(batch_first=True) between tables of tokens and a
// head.
//
//   x = dropout(c S[source] + P[0 .. source_length)),   x = encoder.layers.i(x) for each block
//   memory = encoder.norm(x)
//   y = dropout(c T[target] + P'[0 .. target_length)),  y = decoder.layers.i(y, memory)
//   logits = decoder.norm(y) W^T + b
//
//   source [batch, source_length], target [batch, target_length] i64, dense
//   memory [batch, source_length, features]; logits [batch, target_length, target_vocabulary]
//
// S and T are tables of tokens, or one table. P and P' are rows of positions. c is sqrt(features)
// (section 3.4) or 1. W is T without a bias b, or W and b are a head of their own. Self-attention
// of the decoder is causal: row t of the logits depends on target[0 .. t] alone. So one call trains
// all positions: the loss compares row t with the token t + 1.
//
// Sources of different lengths are padded to one length; EncoderDecoderCalls::source_lengths says
// how many tokens each has. Logits and gradients then have the same bits for any padding tokens.
//
// To write a target, call encode() once, then decode() on its memory with one more token each time.
#include <vector>

#include "rapt/nn/decoder_layer.h"
#include "rapt/nn/embedding.h"
#include "rapt/nn/encoder_layer.h"

namespace rapt::nn {

// Rows that are added to those of the tokens, so that positions differ.
enum class PositionRows : uint8_t {
  learned,  // a table with a row for each position
  // Section 3.5: P[t, 2 i] = sin(t w) and P[t, 2 i + 1] = cos(t w), w = 10000^(-2 i / features).
  sinusoidal,
  none,  // nothing is added
};

// Sizes, and what differs from the default.
struct EncoderDecoderSpec {
  int64_t source_vocabulary = 0, target_vocabulary = 0;  // tokens
  int64_t source_context = 0, target_context = 0;        // most positions
  int64_t encoder_layers = 6, decoder_layers = 6;        // blocks
  int64_t heads = 8;                                     // of each attention
  int64_t features = 512;
  int64_t hidden_features = 0;  // 0: four times the features
  Activation activation = Activation::relu;
  bool norm_first = false;
  double dropout = 0;            // of the blocks, and of their first input, in [0, 1)
  bool shared_table = false;     // S is T; the vocabularies must be equal
  bool tied_head = true;         // W is T
  bool scaled_embedding = true;  // c is sqrt(features), else 1
  // A side whose self-attention has `rotary` or `relative` has no rows of positions.
  PositionRows positions = PositionRows::sinusoidal;
  MultiHeadAttentionSpec encoder_attention = {};  // its dropout is that of this struct
  MultiHeadAttentionSpec decoder_attention = {};  // likewise; a causal mask is added
  MultiHeadAttentionSpec cross_attention = {};    // likewise; of the target to the memory
};

// Blocks and a norm behind them: nn.TransformerEncoder, nn.TransformerDecoder.
template <class Layer>
struct TransformerStack {
  std::vector<Layer> layers;
  LayerNorm norm;

  template <class Self, class F>
  static void members(Self& stack, const F& f) {
    f("layers", stack.layers);
    f("norm", stack.norm);
  }

  // What a backward call needs of its forward call.
  struct State {
    std::vector<typename Layer::State> blocks;  // of each block
    std::vector<TensorView> x;  // [blocks + 1] x [batch, length, features]: before each, after all
    LayerNorm::State norm;      // of the norm
    TensorView positions;       // [batch, length] i64
  };
};

struct EncoderDecoder {
  Embedding source_embedding;                    // S; without a weight if it is T
  Embedding target_embedding;                    // T
  Embedding source_positions, target_positions;  // P and P'; sinusoids are no parameters
  TransformerStack<EncoderLayer> encoder;
  TransformerStack<DecoderLayer> decoder;
  Linear head;                             // without a weight if W is T
  Dropout source_dropout, target_dropout;  // of the first input of the blocks
  double embedding_scale = 1;              // c
  PositionRows positions = PositionRows::none;
  int64_t source_context = 0, target_context = 0;  // most positions

  int64_t features() const { return target_embedding.features(); }
  DType dtype() const { return target_embedding.weight.value.dtype(); }

  template <class Self, class F>
  static void members(Self& model, const F& f) {
    f("source_embedding", model.source_embedding);
    f("target_embedding", model.target_embedding);
    if (model.positions == PositionRows::learned) {
      f("source_positions", model.source_positions);
      f("target_positions", model.target_positions);
    }
    f("encoder", model.encoder);
    f("decoder", model.decoder);
    f("head", model.head);
  }

  // Written by encode(), read by backward().
  using EncoderState = TransformerStack<EncoderLayer>::State;
  // Written by decode(), read by backward().
  struct DecoderState {
    TransformerStack<DecoderLayer>::State stack;  // of the blocks and the norm
    TensorView normed;          // [batch, target_length, features]: the output of decoder.norm
    int64_t memory_length = 0;  // of the memory that is attended to
  };
  // What a backward call needs of its forward call.
  struct State {
    EncoderState encoder;  // of encode()
    DecoderState decoder;  // of decode()
    TensorView memory;     // [batch, source_length, features]
  };
};

// Throws Error(argument) for sizes that are not positive or do not fit together.
EncoderDecoder make_encoder_decoder(const EncoderDecoderSpec& spec, DType dtype = DType::f32);

// Draws the first values: matrices by Xavier's uniform bounds, as nn.Transformer does; tables of
// tokens and positions normal with deviation 1 / sqrt(features), so that scaled rows have about
// unit variance; biases 0. By counters: the same numbers on every machine (init.h).
void initialize_encoder_decoder(EncoderDecoder& model, uint64_t seed);

// Each allocates lists beside what it takes from the arena. Throws Error(shape) for more tokens
// than the model has positions.
EncoderDecoder::EncoderState make_encoder_state(const EncoderDecoder& model, int64_t batch,
                                                int64_t length, Arena& arena);
EncoderDecoder::DecoderState make_decoder_state(const EncoderDecoder& model, int64_t batch,
                                                int64_t length, int64_t memory_length,
                                                Arena& arena);
EncoderDecoder::State make_state(const EncoderDecoder& model, int64_t batch, int64_t source_length,
                                 int64_t target_length, Arena& arena);

// What a call has beside tokens. Backward calls take that of their forward call.
struct EncoderDecoderCalls {
  TensorView source_lengths = {};  // [batch] i64: tokens that are no padding; absent: all
  MultiHeadCall encoder = {};      // masks, captures, ... of every encoder block
  DecoderCalls decoder = {};       // of every decoder block
};

// Writes the logits and the state. Tokens, lengths and shapes are checked before anything is
// written; errors of the options leave the logits untouched and the state unspecified.
void forward(const EncoderDecoder& model, const TensorView& source, const TensorView& target,
             const TensorView& logits, const EncoderDecoder::State& state, const Run& run,
             const EncoderDecoderCalls& calls = {});
// Adds to the gradients of the parameters; tokens have none.
void backward(EncoderDecoder& model, const TensorView& source, const TensorView& target,
              const TensorView& d_logits, const EncoderDecoder::State& state, const Run& run,
              const EncoderDecoderCalls& calls = {});

// The two halves of forward(), with its bits. encode() writes the memory; decode() reads it.
// `calls` are those of forward(): encode() ignores those of the decoder, decode() those of the
// encoder.
void encode(const EncoderDecoder& model, const TensorView& source, const TensorView& memory,
            const EncoderDecoder::EncoderState& state, const Run& run,
            const EncoderDecoderCalls& calls = {});
void decode(const EncoderDecoder& model, const TensorView& memory, const TensorView& target,
            const TensorView& logits, const EncoderDecoder::DecoderState& state, const Run& run,
            const EncoderDecoderCalls& calls = {});

}  // namespace rapt::nn
