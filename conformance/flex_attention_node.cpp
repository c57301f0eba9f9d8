// ONNX FlexAttention, domain ai.onnx.preview, version 1:
//
//   scores = score_mod(scale query key^T),  output = prob_mod(softmax(scores)) value
//
// Both mods are graphs over [batch, heads, q_len, k_len]. Scores and weights are returned by a
// call, changed by the graph, and given to the next call as its bias, beside a scale of 0. After
// prob_mod the normaliser is relu with a divisor of 1: the weights are the bias.
#include <algorithm>
#include <utility>

#include "graph.h"
#include "operators.h"
#include "rapt/attention.h"
#include "rapt/normalizer/relu.h"

namespace rapt::conformance {
namespace {

const Graph* graph_of(const Node& node, const char* name) {
  if (!node.has(name)) return nullptr;
  const Graph* const graph = node.attributes.at(name).graph.get();
  if (!graph)
    throw Error(ErrorCode::format,
                std::string("FlexAttention: the attribute ") + name + " holds no graph");
  return graph;
}

// Whether all elements are >= 0: relu returns these as they are.
bool all_at_least_0(const Tensor& weights) {
  const auto all = [](auto elements) {
    return std::all_of(elements.begin(), elements.end(), [](auto x) { return x >= 0; });
  };
  return weights.dtype() == DType::f64 ? all(weights.values<double>())
                                       : all(weights.values<float>());
}

}  // namespace

Outputs run_flex_attention(const NodeTest& test) {
  const Node& node = test.node;
  require_known(node, {"scale", "score_mod", "prob_mod"});
  const TensorView query = test.input(0), key = test.input(1), value = test.input(2);
  const Graph *score_mod = graph_of(node, "score_mod"), *prob_mod = graph_of(node, "prob_mod");
  if ((score_mod || prob_mod) && query.dtype != DType::f32 && query.dtype != DType::f64)
    throw Error(ErrorCode::unsupported,
                std::string("FlexAttention: graphs over ") + rapt::name_of(query.dtype));
  AttentionOptions options;
  if (node.has("scale")) options.scale = node.real("scale", 1);

  const auto weights_of = [&](WeightsStage stage) {
    AttentionOptions asking = options;
    asking.weights = WeightsRequest{.stage = stage};
    return scaled_dot_product_attention(query, key, value, asking).weights;
  };
  Tensor scores, weights;  // those that the graphs return
  if (score_mod) {
    scores = run_graph(*score_mod, weights_of(WeightsStage::scores));
    options.scale = 0;
    options.bias = scores;
  }
  if (prob_mod) {
    weights = run_graph(*prob_mod, weights_of(WeightsStage::weights));
    if (!all_at_least_0(weights))
      throw Error(ErrorCode::unsupported, "FlexAttention: prob_mod returns weights below 0 or NaN");
    options.scale = 0;
    options.bias = weights;
    static constexpr Relu kWeightsAreTheBias{.divisor = 1};
    options.normalizer = kWeightsAreTheBias;
  }
  Outputs outputs(1);
  outputs[0] = std::move(scaled_dot_product_attention(query, key, value, options).output);
  return outputs;
}

}  // namespace rapt::conformance
