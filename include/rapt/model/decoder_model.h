#pragma once
// Language models that continue a text, from folders of Hugging Face transformers, as one decoder
// whose parts are options:
//
//   x = scale token[id] (gpt2: + position[place])
//   for each layer:  x = x + behind_a(attention(norm_a(x))),  x = x + behind_n(network(norm_n(x)))
//   logits = cap(norm(x) head^T),   cap(s) = c tanh(s / c)
//
//   network(h) = W2 (activation(Wg h) * (W1 h)), or without a gate W2 activation(W1 h + b1) + b2
//
//   family   source                              parts
//   gpt2     Radford et al. 2019                 LayerNorm, learned positions, biases, no gate
//   llama    Touvron et al. 2023,                RmsNorm, rotary positions, a gate with silu,
//            arXiv:2302.13971                    grouped heads
//   mistral  Jiang et al. 2023,                  as llama, and a sliding window in every layer
//            arXiv:2310.06825
//   qwen2    Yang et al. 2024, arXiv:2407.10671  as llama, biases of query, key and value, a window
//                                                in the later layers
//   qwen3    Qwen Team 2025, arXiv:2505.09388    as qwen2 without these biases, an RmsNorm of each
//                                                head's query and key before the rotation
//   gemma2   Gemma Team 2024, arXiv:2408.00118   norms before and behind both parts, whose weights
//                                                are 1 more than stored; softcaps of scores and
//                                                logits; a window in every second layer
//
// Weights are read where they lie in the mapped files, in their own type (f32, bf16 or f16). So are
// GPT-2's transposed matrices; f64 and norms are copied. Everything else is computed in f32. In
// bf16, rows are rounded to bf16 before each product, and so are weights of other types, which are
// copied; sums, norms and attention are computed in f32. Biases and GPT-2's positions, which are
// added, are not rounded.
// A cache may keep keys and values in bf16 or f16 (DecodingSizes::cache_dtype).
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/model/encoder_model.h"
#include "rapt/nn/decoding.h"
#include "rapt/nn/norm.h"
#include "rapt/rotary.h"

namespace rapt::model {

// The models that are read; names are values of `model_type` in config.json.
enum class DecoderFamily : uint8_t { gpt2, llama, mistral, qwen2, qwen3, gemma2 };
inline constexpr const char* kDecoderFamilyNames[] = {"gpt2",  "llama", "mistral",
                                                      "qwen2", "qwen3", "gemma2"};

// The most that a size of a config may be, by which products of two sizes fit 64 bits; and the most
// layers.
inline constexpr int64_t kMostDecoderSize = (int64_t{1} << 31) - 1;
inline constexpr int64_t kMostDecoderLayers = 1 << 16;

// The sizes and options of a decoder, as config.json has them.
struct DecoderSpec {
  DecoderFamily family = DecoderFamily::llama;  // decides the names of tensors
  int64_t vocabulary = 0;                       // rows of the table of tokens
  int64_t context = 0;                          // the most tokens that a text may have
  int64_t layers = 0, heads = 0, features = 0;  // sizes of the blocks
  int64_t kv_heads = 0;                         // a divisor of the heads
  int64_t head_dim = 0;                         // of queries, keys and values
  int64_t hidden_features = 0;                  // between the two products of a block's network
  Activation activation = Activation::silu;     // of the network
  double norm_epsilon = 1e-6;                   // of every norm
  bool norm_adds_one = false;                   // weights of norms are 1 + what is stored
  bool norms_behind = false;                    // norms behind attention and network, too
  bool head_norms = false;                      // an RmsNorm of each head's query and key
  bool input_bias = false;                      // of query, key and value
  bool output_bias = false;                     // of attention's output
  bool network_bias = false;                    // of the network's products
  Rotary rotary = {};                           // not of gpt2
  // [layers] The tokens that one attends to, itself included; 0: all before it.
  std::vector<int64_t> windows = {};
  std::optional<double> score_scale = {};  // absent: 1 / sqrt(head_dim)
  double score_cap = 0, logit_cap = 0;     // softcaps; 0: none
  double embedding_scale = 1;              // of rows of the table of tokens
  bool tied_head = false;                  // the head is the table of tokens
  // Keys of config.json that rapt does not know. It assumes that they change no number.
  std::vector<std::string> ignored_keys = {};

  // GPT-2's blocks: LayerNorm, a table of positions, no gate.
  bool is_gpt2() const noexcept { return family == DecoderFamily::gpt2; }
};

// One block.
struct DecoderBlock {
  nn::Norm attention_norm, network_norm;          // before attention and network
  std::optional<nn::Norm> attention_norm_behind;  // with norms_behind
  std::optional<nn::Norm> network_norm_behind;    // with norms_behind
  std::optional<nn::Norm> query_norm;             // with head_norms, of each head's query
  std::optional<nn::Norm> key_norm;               // with head_norms, of each head's key
  StoredLinear query, key, value, output;         // of attention
  StoredLinear gate;                              // Wg of the network; not of gpt2
  StoredLinear widen, narrow;                     // W1 and W2 of the network
};

// A model whose weights are mapped. It can be moved, not copied; calls from several threads are
// safe.
class DecoderModel final : public nn::DecodingModel {
 public:
  DecoderSpec spec;                  // of its config
  TensorView tokens;                 // [vocabulary, features]
  TensorView places;                 // [context, features] of gpt2, else absent
  std::vector<DecoderBlock> blocks;  // of each layer
  nn::Norm norm;                     // behind the last block
  // The rows of products: f32, or bf16, to which they are rounded.
  DType computed = DType::f32;
  TensorView head;                   // [vocabulary, features]; `tokens` with tied_head
  std::vector<LoadedTensor> loaded;  // what the views refer to

  DecoderModel() = default;
  DecoderModel(DecoderModel&&) noexcept = default;
  DecoderModel& operator=(DecoderModel&&) noexcept = default;

  // As decoder_sizes().
  nn::DecodingSizes sizes() const override;
  // As decode() of nn/decoding.h.
  void decode(const TensorView& new_tokens, nn::DecodingCache& cache, const TensorView& logits,
              const nn::Run& run, const nn::DecodingWeights& weights = {}) const override;
};

// Does config.json name one of kDecoderFamilyNames, and not one of kEncoderFamilyNames? Throws
// Error(unsupported) for other models, Error(io, format) for a config that is missing or malformed.
bool is_decoder_folder(const std::string& folder);

// Reads config.json alone. Throws Error(format, unsupported) as read_model_config(), and
// Error(unsupported) for another model_type or class (`architectures`), for quantised weights, for
// mixtures of experts, and for each key that changes numbers in a way that rapt lacks.
DecoderSpec load_decoder_spec(const std::string& folder);

// The same from the text of a config.json; `file` stands for its path in messages.
DecoderSpec read_decoder_spec(std::string_view json, const std::string& file);

// The sizes of the model in a folder, known before memory is taken.
struct DecoderInfo {
  DecoderSpec spec;          // with the keys that are ignored
  DType dtype = DType::f32;  // of DecoderModel::tokens
  int64_t parameters = 0;    // elements of all tensors that the model has
  int64_t mapped_bytes = 0;  // of tensors that are read where they lie
  int64_t copied_bytes = 0;  // of tensors that are copied, as copies
};

// Reads config.json and the headers of the tensors. Throws as load_decoder(), except for the values
// of tensors.
DecoderInfo load_decoder_info(const std::string& folder, DType computed = DType::f32);

// The sizes of a cache of the model, and the limits of a call.
nn::DecodingSizes decoder_sizes(const DecoderSpec& spec, DType computed = DType::f32);

// Maps a model that is computed in f32 or bf16. Throws Error(dtype) for another `computed`, and as
// load_decoder_spec() and open_safetensors(); one Error(format) names a tensor that is missing, of
// another shape or of another type, or that the model does not have.
DecoderModel load_decoder(const std::string& folder, DType computed = DType::f32);

// One pass over a whole text without a cache: the output of the last norm, [tokens, features] f32.
// `captures` are those of encode() (encoder_model.h); a result's heads are all heads of a layer.
// Throws Error(argument) for ids beyond the vocabulary and texts longer than the context, and as
// scaled_dot_product_attention().
Tensor read_text(const DecoderModel& model, std::span<const int64_t> ids,
                 const Context& context = {}, const EncoderCaptures& captures = {});

}  // namespace rapt::model
