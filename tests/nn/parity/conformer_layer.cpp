// A Conformer block as a module of PyTorch's parts: "n.heads", "n.causal". "lengths" [batch]: of
// the sequences; no query attends to the positions behind.
#include "rapt/nn/conformer_layer.h"

#include "nn/parity/parity.h"
#include "rapt/mask/lengths.h"

namespace parity {

void conformer_layer(Given& given) {
  using namespace rapt;
  const Tensor x = given.tensor("x"), d_y = given.tensor("d_y");
  const Tensor lengths = given.tensor("lengths");
  const bool causal = given.number("causal") != 0;
  auto layer = nn::make_conformer_layer(
      x.dim(2), static_cast<int64_t>(given.number("heads")),
      {.hidden_features = given.tensor("p.ffn1.linear1.bias").dim(0),
       .kernel = given.tensor("p.conv_module.depthwise_conv.weight").dim(2),
       .padding = causal ? nn::ConvPadding::causal : nn::ConvPadding::same,
       .attention = {.mask = causal ? "causal" : ""}},
      given.dtype());
  given.load(layer);
  const Lengths in_length(lengths.view());
  nn::MultiHeadCall call;
  call.options.masks = {&in_length};
  Tensor y(given.dtype(), x.dims()), d_x(given.dtype(), x.dims());
  run([&](nn::Arena& states, const nn::Run& r) {
    const auto state = make_state(layer, x.dims(), states);
    forward(layer, x, y, state, r, call);
    backward(layer, x, d_y, state, d_x, r, call);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
  given.compare_gradients(layer);
}

}  // namespace parity
