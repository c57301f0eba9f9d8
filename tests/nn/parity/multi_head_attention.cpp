// nn.MultiheadAttention, and modules of grouped or causal scaled_dot_product_attention.
//
// Numbers: num_heads, num_kv_heads, causal. Tensors beside x, key_value and value: "allowed"
// [..., length, k_len] boolean, true = may attend; "padding" [batch, k_len] boolean, true = masked;
// "weights" [batch, num_heads, length, keys].
#include "rapt/nn/multi_head_attention.h"

#include "nn/parity/parity.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/not.h"

namespace parity {
namespace {

using namespace rapt;

nn::MultiHeadAttention layer_of(const Given& given, const TensorView& x) {
  const Tensor key = given.tensor(given.has("key_value") ? "key_value" : "x");
  const Tensor value = given.tensor(given.has("value") ? "value" : "x");
  nn::MultiHeadAttentionSpec spec;
  spec.num_kv_heads = static_cast<int64_t>(given.number("num_kv_heads"));
  spec.kdim = key.dim(-1), spec.vdim = given.has("value") ? value.dim(-1) : key.dim(-1);
  spec.bias = given.has("p.in_proj_bias");
  spec.add_bias_kv = given.has("p.bias_k");
  spec.add_zero_attn = given.number("add_zero_attn") != 0;
  if (given.number("causal") != 0) spec.mask = "causal";
  return nn::make_multi_head_attention(
      x.shape[x.rank - 1], static_cast<int64_t>(given.number("num_heads")), spec, given.dtype());
}

}  // namespace

void multi_head_attention(Given& given) {
  const Tensor x = given.tensor("x"), d_y = given.tensor("d_y");
  nn::MultiHeadAttention layer = layer_of(given, x);
  given.load(layer);
  nn::MultiHeadCall call;
  nn::MultiHeadGradients gradients;
  Tensor key_value, value, d_key_value, d_value, allowed, padding, weights;
  const auto take = [&](const char* name, Tensor& input, TensorView& view, Tensor& d,
                        TensorView& d_view) {
    if (!given.has(name)) return;
    input = given.tensor(name), d = Tensor(input.dtype(), input.dims());
    view = input.view(), d_view = d.view();
  };
  take("key_value", key_value, call.key_value, d_key_value, gradients.key_value);
  take("value", value, call.value, d_value, gradients.value);

  Boolean pairs, masked;
  std::vector<const Mask*> masks;
  if (given.has("allowed"))
    allowed = given.tensor("allowed"), pairs = Boolean(allowed.view()), masks.push_back(&pairs);
  if (given.has("padding")) {
    padding = given.tensor("padding");
    const int64_t rows[] = {padding.dim(0), 1, 1, padding.dim(1)};
    masked = Boolean(TensorView(padding.data(), DType::boolean, rows, true));
  }
  const Not not_masked(&masked);
  if (given.has("padding")) masks.push_back(&not_masked);
  call.options.masks = masks;
  if (given.has("weights")) {
    weights = Tensor(given.dtype(), given.tensor("weights").dims());
    call.options.weights = WeightsRequest{};
    call.weights = weights.view();
  }
  Tensor y(given.dtype(), d_y.dims()), d_x(given.dtype(), x.dims());
  run([&](nn::Arena& states, const nn::Run& r) {
    const auto state = make_state(layer, x.dims(), states, call.key_value.dims());
    forward(layer, x, y, state, r, call);
    backward(layer, x, d_y, state, d_x, r, false, call, gradients);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
  if (key_value.defined()) given.compare("d_key_value", d_key_value);
  if (value.defined()) given.compare("d_value", d_value);
  if (weights.defined()) given.compare("weights", weights);
  given.compare_gradients(layer);
}

}  // namespace parity
