// Makes an EncoderDecoder: sizes, tables of positions, first values.
#include <cmath>
#include <string>

#include "nn/training/convert.h"
#include "rapt/nn/encoder_decoder.h"
#include "rapt/nn/init.h"

namespace rapt::nn {
namespace {

void check_encoder_decoder_spec(const EncoderDecoderSpec& spec) {
  const struct {
    const char* name;
    int64_t value;
  } sizes[] = {{"source_vocabulary", spec.source_vocabulary},
               {"target_vocabulary", spec.target_vocabulary},
               {"source_context", spec.source_context},
               {"target_context", spec.target_context},
               {"encoder_layers", spec.encoder_layers},
               {"decoder_layers", spec.decoder_layers},
               {"heads", spec.heads},
               {"features", spec.features}};
  for (const auto& [name, value] : sizes)
    if (value < 1)
      throw Error(ErrorCode::argument, std::string("EncoderDecoderSpec: ") + name + " is " +
                                           std::to_string(value) + "; expected 1 or more");
  if (spec.hidden_features < 0)
    throw Error(ErrorCode::argument, "EncoderDecoderSpec: hidden_features is " +
                                         std::to_string(spec.hidden_features) +
                                         "; expected 1 or more, or 0 for four times the features");
  if (spec.shared_table && spec.source_vocabulary != spec.target_vocabulary)
    throw Error(ErrorCode::argument, "EncoderDecoderSpec: one table for vocabularies of " +
                                         std::to_string(spec.source_vocabulary) + " and " +
                                         std::to_string(spec.target_vocabulary) +
                                         " tokens; expected equal ones");
}

// Sinusoids [context, features], computed in f64 and rounded once; not a parameter that learns.
Embedding sinusoids(int64_t context, int64_t features, DType dtype) {
  Tensor table(DType::f64, {context, features});
  const auto values = table.values<double>();
  for (int64_t t = 0; t < context; ++t)
    for (int64_t i = 0; i < features; ++i) {
      const double rate =
          std::pow(10000.0, -static_cast<double>(i - i % 2) / static_cast<double>(features));
      const double angle = static_cast<double>(t) * rate;
      values[static_cast<size_t>(t * features + i)] =
          i % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  Embedding rows;
  rows.weight.value = Tensor(dtype, {context, features});
  convert(table, rows.weight.value);
  return rows;
}

// The rows of positions of one side, with its self-attention.
Embedding position_rows(const EncoderDecoderSpec& spec, const MultiHeadAttentionSpec& attention,
                        int64_t context, DType dtype) {
  const bool within_attention = !attention.rotary.empty() || !attention.relative.empty();
  if (within_attention || spec.positions == PositionRows::none) return {};
  if (spec.positions == PositionRows::learned) return make_embedding(context, spec.features, dtype);
  return sinusoids(context, spec.features, dtype);
}

// Each block draws its dropouts from so many streams; 0 and 1 are those of the tokens.
constexpr uint64_t kStreamsPerBlock = 8;

TransformerStack<EncoderLayer> make_encoder(const EncoderDecoderSpec& spec, DType dtype) {
  TransformerStack<EncoderLayer> encoder;
  EncoderLayerSpec block{.hidden_features = spec.hidden_features,
                         .activation = spec.activation,
                         .norm_first = spec.norm_first,
                         .dropout = spec.dropout,
                         .attention = spec.encoder_attention};
  for (int64_t i = 0; i < spec.encoder_layers; ++i) {
    block.dropout_stream = kStreamsPerBlock * static_cast<uint64_t>(i + 1);
    encoder.layers.push_back(make_encoder_layer(spec.features, spec.heads, block, dtype));
  }
  encoder.norm = make_layer_norm(spec.features, {}, dtype);
  return encoder;
}

TransformerStack<DecoderLayer> make_decoder(const EncoderDecoderSpec& spec, DType dtype) {
  TransformerStack<DecoderLayer> decoder;
  DecoderLayerSpec block{.hidden_features = spec.hidden_features,
                         .activation = spec.activation,
                         .norm_first = spec.norm_first,
                         .dropout = spec.dropout,
                         .self_attention = spec.decoder_attention,
                         .cross_attention = spec.cross_attention};
  const std::string& mask = spec.decoder_attention.mask;
  block.self_attention.mask = mask.empty() ? "causal" : "causal & (" + mask + ")";
  for (int64_t i = 0; i < spec.decoder_layers; ++i) {
    block.dropout_stream = kStreamsPerBlock * static_cast<uint64_t>(spec.encoder_layers + i + 1);
    decoder.layers.push_back(make_decoder_layer(spec.features, spec.heads, block, dtype));
  }
  decoder.norm = make_layer_norm(spec.features, {}, dtype);
  return decoder;
}

}  // namespace

EncoderDecoder make_encoder_decoder(const EncoderDecoderSpec& spec, DType dtype) {
  check_encoder_decoder_spec(spec);
  EncoderDecoder model;
  model.encoder = make_encoder(spec, dtype);
  model.decoder = make_decoder(spec, dtype);
  if (!spec.shared_table)
    model.source_embedding = make_embedding(spec.source_vocabulary, spec.features, dtype);
  model.target_embedding = make_embedding(spec.target_vocabulary, spec.features, dtype);
  model.source_positions = position_rows(spec, spec.encoder_attention, spec.source_context, dtype);
  model.target_positions = position_rows(spec, spec.decoder_attention, spec.target_context, dtype);
  if (!spec.tied_head) model.head = make_linear(spec.features, spec.target_vocabulary, true, dtype);
  model.source_dropout = {spec.dropout, 0};
  model.target_dropout = {spec.dropout, 1};
  if (spec.scaled_embedding) model.embedding_scale = std::sqrt(static_cast<double>(spec.features));
  model.positions = spec.positions;
  model.source_context = spec.source_context, model.target_context = spec.target_context;
  return model;
}

void initialize_encoder_decoder(EncoderDecoder& model, uint64_t seed) {
  const Init table = Init::normal(1 / std::sqrt(static_cast<double>(model.features())));
  visit(model, [&](const std::string& name, Parameter& p) {
    const bool of_attention = name.ends_with("_proj_weight");
    if (name.ends_with("bias"))
      p.init = Init::keep();
    else if (name.starts_with("source_") || name.starts_with("target_"))
      p.init = table;
    else if (of_attention || (name.ends_with(".weight") && p.value.rank() == 2))
      p.init = Init::xavier_uniform(p.value.dim(1), p.value.dim(0));
  });
  initialize(model, seed);
}

}  // namespace rapt::nn
