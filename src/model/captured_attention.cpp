#include "model/captured_attention.h"

#include <algorithm>
#include <cstring>

namespace rapt::model {

bool is_captured(const EncoderCaptures& captures, int64_t layer) {
  return captures.on_layer && (captures.layers.empty() ||
                               std::ranges::find(captures.layers, layer) != captures.layers.end());
}

void attend_captured(const HeadViews& heads, int64_t layer, AttentionOptions options,
                     const EncoderCaptures& captures, const Context& context) {
  options.weights = captures.weights;
  options.map = captures.map;
  options.top_k = captures.top_k;
  options.entropy = captures.entropy;
  options.received = captures.received;
  AttentionResult result =
      scaled_dot_product_attention(heads.query, heads.key, heads.value, options, context);
  const float* from = result.output.values<float>().data();
  const TensorView& to = heads.output;
  for (int64_t head = 0; head < to.shape[0]; ++head)
    for (int64_t i = 0; i < to.shape[1]; ++i, from += to.shape[2])
      std::memcpy(static_cast<float*>(to.data) + head * to.strides[0] + i * to.strides[1], from,
                  static_cast<size_t>(to.shape[2]) * sizeof(float));
  captures.on_layer(layer, result);
}

}  // namespace rapt::model
