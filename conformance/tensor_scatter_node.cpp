// ONNX TensorScatter, opset 24: write_to_cache on a copy, since a node changes no input.
#include "operators.h"
#include "rapt/cache.h"

namespace rapt::conformance {

Outputs run_tensor_scatter(const NodeTest& test) {
  require_known(test.node, {"axis", "mode"});
  const std::string mode = test.node.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    throw Error(ErrorCode::argument, "TensorScatter: mode " + mode);
  Outputs outputs(1);
  outputs[0] = Tensor::copy_of(test.input(0));
  // The rows of the cache are the second-last dimension; another axis is exchanged with it.
  const auto axis = static_cast<int>(test.node.integer("axis", -2));
  if (axis == 0 || axis == -outputs[0].rank())
    throw Error(ErrorCode::argument, "TensorScatter: the axis of the batch");
  write_to_cache(outputs[0].view().transposed(axis, -2), test.input(1).transposed(axis, -2),
                 test.input(2), mode == "circular" ? CacheEnd::circular : CacheEnd::linear);
  return outputs;
}

}  // namespace rapt::conformance
