// nn.Transformer between tables of tokens and a head: "n.heads", "n.norm_first", "n.gelu",
// "n.encoder_layers", "n.decoder_layers", "n.learned", "n.shared", "n.tied", "n.scaled".
#include "rapt/nn/encoder_decoder.h"

#include "nn/parity/parity.h"

namespace parity {
namespace {

using namespace rapt;

nn::EncoderDecoderSpec spec_of(const Given& given) {
  const auto size = [&](const char* name) { return static_cast<int64_t>(given.number(name)); };
  const Tensor table = given.tensor("p.target_embedding.weight");
  nn::EncoderDecoderSpec spec{
      .source_vocabulary = table.dim(0),
      .target_vocabulary = table.dim(0),
      .source_context = 64,
      .target_context = 64,
      .encoder_layers = size("encoder_layers"),
      .decoder_layers = size("decoder_layers"),
      .heads = size("heads"),
      .features = table.dim(1),
      .hidden_features = given.tensor("p.encoder.layers.0.linear1.bias").dim(0),
      .activation = given.number("gelu") != 0 ? Activation::gelu : Activation::relu,
      .norm_first = given.number("norm_first") != 0,
      .shared_table = given.number("shared") != 0,
      .tied_head = given.number("tied") != 0,
      .scaled_embedding = given.number("scaled") != 0};
  if (!spec.shared_table) spec.source_vocabulary = given.tensor("p.source_embedding.weight").dim(0);
  if (given.number("learned") != 0) spec.positions = nn::PositionRows::learned;
  return spec;
}

}  // namespace

void encoder_decoder(Given& given) {
  const Tensor source = given.tensor("source"), target = given.tensor("target");
  const Tensor lengths = given.tensor("lengths"), d_logits = given.tensor("d_logits");
  auto model = nn::make_encoder_decoder(spec_of(given), d_logits.dtype());
  given.load(model);
  Tensor logits(d_logits.dtype(), d_logits.dims());
  run([&](nn::Arena& states, const nn::Run& r) {
    const auto state = make_state(model, source.dim(0), source.dim(1), target.dim(1), states);
    const nn::EncoderDecoderCalls calls{.source_lengths = lengths};
    forward(model, source, target, logits, state, r, calls);
    backward(model, source, target, d_logits, state, r, calls);
  });
  given.compare("logits", logits);
  given.compare_gradients(model);
}

}  // namespace parity
