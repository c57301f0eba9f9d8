#pragma once
// Encoders that read a text in both directions: BERT (Devlin et al. 2018, arXiv:1810.04805),
// RoBERTa (Liu et al. 2019, arXiv:1907.11692) and DistilBERT (Sanh et al. 2019, arXiv:1910.01108),
// from folders of Hugging Face transformers. MiniLM and many models of sentences are BERTs.
//
//   x = norm(token[id] + type[type id] + position[place])
//   for each layer:  h = norm(x + attention(x)),  x = norm(h + W2 activation(W1 h + b1) + b2)
//
// Weights are read where they lie in the mapped files, in their own type (f32, bf16 or f16);
// everything else is computed in f32. Several texts are packed into one call without padding, and a
// text has the same bits whatever stands beside it.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/activation.h"
#include "rapt/attention.h"
#include "rapt/io/tensor_file.h"
#include "rapt/nn/layer_norm.h"

namespace rapt::model {

// The models that are read; names are values of `model_type` in config.json.
enum class EncoderFamily : uint8_t { bert, roberta, distilbert };
inline constexpr const char* kEncoderFamilyNames[] = {"bert", "roberta", "distilbert"};

// The sizes and options of an encoder, as config.json has them.
struct EncoderSpec {
  EncoderFamily family = EncoderFamily::bert;  // decides the names of tensors
  int64_t vocabulary = 0;                      // rows of the table of tokens
  int64_t positions = 0;                       // rows of the table of positions
  // The row of a text's first token. RoBERTa: pad_token_id + 1; the row before it is padding's,
  // which is not counted.
  int64_t first_position = 0;
  int64_t types = 0;                            // rows of the table of types; 0: no such table
  int64_t layers = 0, heads = 0, features = 0;  // sizes of the blocks
  int64_t hidden_features = 0;                  // between the two products of a block's network
  Activation activation = Activation::gelu;     // of the network
  double norm_epsilon = 1e-12;                  // of every norm
  std::vector<std::string> ignored_keys = {};   // of config.json: unknown ones, which are not read

  // The most tokens that a text may have.
  int64_t longest() const noexcept { return positions - first_position; }
  int64_t head_dim() const noexcept { return features / heads; }
};

// A matrix [out, in] and its bias [out], as they lie in a file.
struct StoredLinear {
  TensorView weight, bias;
};

// One block.
struct EncoderBlock {
  StoredLinear query, key, value, output;  // of attention
  nn::LayerNorm attention_norm;            // behind attention
  StoredLinear widen, narrow;              // of the network
  nn::LayerNorm network_norm;              // behind the network
};

// A model whose weights are mapped. It can be moved, not copied; calls from several threads are
// safe.
struct EncoderModel {
  EncoderSpec spec;
  TensorView tokens, places, types;  // the tables; `types` may be absent
  nn::LayerNorm embedding_norm;      // behind the sum of the tables
  std::vector<EncoderBlock> blocks;  // of each layer
  std::vector<LoadedTensor> loaded;  // what the views refer to
};

// Reads config.json alone. Throws Error(format, unsupported) as read_model_config(), and
// Error(unsupported) for a model_type that is none of kEncoderFamilyNames and for classes
// (`architectures`) of another family.
EncoderSpec load_encoder_spec(const std::string& folder);

// The same from the text of a config.json; `file` stands for its path in messages.
EncoderSpec read_encoder_spec(std::string_view json, const std::string& file);

// Maps a model. Throws as load_encoder_spec() and open_safetensors(); one Error(format) names a
// tensor that is missing, of another shape or of another type, or that the model does not have.
// Heads for training (pooler, cls, ...) are ignored.
EncoderModel load_encoder(const std::string& folder);

// Tokens of several texts, one text after the other.
struct TokenBatch {
  std::span<const int64_t> ids;     // [tokens]
  std::span<const int64_t> types;   // [tokens]; empty: all 0
  std::span<const int64_t> starts;  // [texts + 1], from 0 to tokens; empty: one text
};

// What a call returns beside the outputs, from each of `layers`. With several texts, weights and a
// map are rejected with Error(unsupported).
struct EncoderCaptures {
  std::optional<WeightsRequest> weights = {};  // of attention.h
  std::optional<MapRequest> map = {};          // of attention.h
  int64_t top_k = 0;                           // of attention.h
  bool entropy = false, received = false;      // of attention.h
  std::vector<int64_t> layers = {};            // the layers that are captured; empty: all
  // Called for each of them, in the model's order; the result's output is [heads, tokens,
  // head_dim].
  std::function<void(int64_t layer, AttentionResult& result)> on_layer = {};
};

// The output of the last layer, [tokens, features] in f32. Throws Error(argument) for ids, types or
// lengths beyond the tables, and as scaled_dot_product_attention().
Tensor encode(const EncoderModel& model, const TokenBatch& batch, const Context& context = {},
              const EncoderCaptures& captures = {});

}  // namespace rapt::model
