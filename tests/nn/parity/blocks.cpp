// nn.TransformerEncoderLayer and nn.TransformerDecoderLayer: "n.heads", "n.norm_first", "n.gelu",
// "n.causal".
#include "nn/parity/parity.h"
#include "rapt/nn/decoder_layer.h"
#include "rapt/nn/encoder_layer.h"

namespace parity {
namespace {

using namespace rapt;

Activation activation_of(const Given& given) {
  return given.number("gelu") != 0 ? Activation::gelu : Activation::relu;
}

}  // namespace

void encoder_layer(Given& given) {
  const Tensor x = given.tensor("x"), d_y = given.tensor("d_y");
  nn::EncoderLayerSpec spec{.hidden_features = given.tensor("p.linear1.bias").dim(0),
                            .activation = activation_of(given),
                            .norm_first = given.number("norm_first") != 0};
  if (given.number("causal") != 0) spec.attention.mask = "causal";
  auto layer = nn::make_encoder_layer(x.dim(-1), static_cast<int64_t>(given.number("heads")), spec,
                                      given.dtype());
  given.load(layer);
  Tensor y(given.dtype(), x.dims()), d_x(given.dtype(), x.dims());
  run([&](nn::Arena& states, const nn::Run& r) {
    const auto state = make_state(layer, x.dims(), states);
    forward(layer, x, y, state, r);
    backward(layer, x, d_y, state, d_x, r);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
  given.compare_gradients(layer);
}

void decoder_layer(Given& given) {
  const Tensor x = given.tensor("x"), memory = given.tensor("memory"), d_y = given.tensor("d_y");
  nn::DecoderLayerSpec spec{.hidden_features = given.tensor("p.linear1.bias").dim(0),
                            .activation = activation_of(given),
                            .norm_first = given.number("norm_first") != 0,
                            .self_attention = {.mask = "causal"}};
  auto layer = nn::make_decoder_layer(x.dim(-1), static_cast<int64_t>(given.number("heads")), spec,
                                      given.dtype());
  given.load(layer);
  Tensor y(given.dtype(), x.dims()), d_x(given.dtype(), x.dims());
  Tensor d_memory(given.dtype(), memory.dims());
  run([&](nn::Arena& states, const nn::Run& r) {
    std::fill_n(static_cast<std::byte*>(d_memory.data()),
                d_memory.count() * size_of(d_memory.dtype()), std::byte{0});
    const auto state = make_state(layer, x.dims(), memory.dims(), states);
    forward(layer, x, memory, y, state, r);
    backward(layer, x, memory, d_y, state, d_x, d_memory, r);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
  given.compare("d_memory", d_memory);
  given.compare_gradients(layer);
}

}  // namespace parity
